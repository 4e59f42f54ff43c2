"""A bot's life as bars, from histories as the engine writes them."""

from datetime import UTC, datetime, timedelta

from botpool.domain.history import HistoryRow
from botpool.domain.timeline import timeline

TEN = datetime(2026, 1, 5, 10, tzinfo=UTC)


def row(second: float, kind: str, to: str | None) -> HistoryRow:
    return HistoryRow(
        at=TEN + timedelta(seconds=second),
        kind=kind,
        from_state=None,
        to_state=to,
        slot_name=None,
        reason="test",
        data=None,
    )


def bars(*rows: tuple[float, str, str | None]) -> list[tuple[str, float, float | None]]:
    def seconds(at: datetime) -> float:
        return (at - TEN).total_seconds()

    return [
        (bar.phase.value, seconds(bar.began_at), seconds(bar.ended_at) if bar.ended_at else None)
        for bar in timeline([row(*each) for each in rows])
    ]


def bot(second: float, to: str) -> tuple[float, str, str | None]:
    return second, "bot.status", to


def slot(second: float, to: str | None) -> tuple[float, str, str | None]:
    return second, "slot.status", to


def phase(second: float, to: str) -> tuple[float, str, str | None]:
    return second, "slot.phase", to


def taken(second: float) -> list[tuple[float, str, str | None]]:
    return [bot(second, "DEPLOYING"), slot(second, "deploying")]


def test_timeline_of_a_complete_bot() -> None:
    assert bars(
        bot(0, "PENDING"),
        bot(1, "QUEUED"),
        *taken(5),
        phase(6, "waiting_for_image"),
        phase(8, "waiting_for_start"),
        phase(9, "starting"),
        slot(20, "busy"),
        bot(20, "JOINING_CALL"),
        bot(22, "IN_WAITING_ROOM"),
        bot(30, "IN_CALL"),
        (31, "agent.note", None),
        bot(90, "LEAVING"),
        bot(95, "CALL_ENDED"),
        bot(215, "DONE"),
        slot(215, "releasing"),
        slot(220, "idle"),
    ) == [
        ("waiting", 0, 5),
        ("creating", 5, 6),
        ("image", 6, 8),
        ("starting", 8, 20),
        ("joining", 20, 30),
        ("in_call", 30, 95),
        ("finishing", 95, 215),
        ("releasing", 215, 220),
    ]


def test_finishing_begins_with_the_acknowledgement_of_a_leave_request() -> None:
    assert bars(
        *taken(0),
        bot(20, "JOINING_CALL"),
        bot(30, "IN_CALL"),
        bot(90, "LEAVING"),
        (95, "bot.phase", "finishing"),
        bot(100, "CALL_ENDED"),
        bot(200, "DONE"),
        slot(200, "releasing"),
    )[2:] == [("in_call", 30, 95), ("finishing", 95, 200), ("releasing", 200, None)]


def test_instant_phase_has_no_bar_and_current_phase_no_end() -> None:
    assert bars(bot(0, "PENDING"), *taken(0), phase(1, "starting")) == [
        ("creating", 0, 1),
        ("starting", 1, None),
    ]
    assert bars() == []
    assert bars(bot(0, "PENDING")) == [("waiting", 0, None)]


def test_each_attempt_has_its_own_bars() -> None:
    failed = [slot(8, "releasing"), slot(9, "error"), bot(9, "QUEUED")]
    assert bars(bot(0, "PENDING"), *taken(0), phase(2, "starting"), *failed, *taken(12)) == [
        ("creating", 0, 2),
        ("starting", 2, 8),
        ("releasing", 8, 9),
        ("waiting", 9, 12),
        ("creating", 12, None),
    ]


def test_timeline_ends_with_release() -> None:
    queued = [bot(0, "PENDING"), bot(0, "QUEUED")]
    assert bars(*queued, bot(7, "FAILED")) == [("waiting", 0, 7)]
    # Cancelled while it deploys: its slot is released from the same moment on.
    assert bars(*taken(0), bot(3, "CANCELLED"), slot(3, "releasing"), slot(5, "idle")) == [
        ("creating", 0, 3),
        ("releasing", 3, 5),
    ]
    # Cancelled while its slot is being released for another try.
    assert bars(*taken(0), slot(3, "releasing"), bot(4, "CANCELLED"), slot(5, "idle")) == [
        ("creating", 0, 3),
        ("releasing", 3, 5),
    ]
    # The last try failed: the slot is freed, then the bot fails.
    assert bars(*taken(0), slot(3, "releasing"), slot(5, "error"), bot(5, "FAILED")) == [
        ("creating", 0, 3),
        ("releasing", 3, 5),
    ]


def test_request_to_leave_does_not_end_the_phase() -> None:
    assert bars(bot(0, "JOINING_CALL"), bot(1, "LEAVING"), slot(4, "releasing")) == [
        ("joining", 0, 4),
        ("releasing", 4, None),
    ]
    cordoned: tuple[float, str, str | None] = (2, "slot.cordon", "cordoned")
    assert bars(bot(0, "IN_CALL"), cordoned) == [("in_call", 0, None)]
