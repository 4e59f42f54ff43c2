"""Which of Meeboter's slots and bots the import moves."""

import pytest

from botpool.domain.ids import ContainerId, PoolName
from botpool.domain.meeboter import (
    MeeboterBot,
    MeeboterSlot,
    plan_bots,
    plan_slots,
    pool_and_number,
)

POOLS = frozenset({PoolName("google-meet"), PoolName("teams")})


def slot(slot_id: int, **changes: object) -> MeeboterSlot:
    values: dict[str, object] = {
        "slot_name": "pool-google-meet-001",
        "status": "idle",
        "bot_id": None,
        "bot_status": None,
    }
    return MeeboterSlot(id=slot_id, container_id=ContainerId(f"app-{slot_id}"), **values | changes)  # type: ignore[arg-type]


def steps(*slots: MeeboterSlot, owned: dict[ContainerId, str] | None = None) -> dict[int, str]:
    return {plan.slot.id: plan.step for plan in plan_slots(slots, POOLS, owned or {})}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pool-google-meet-001", ("google-meet", 1)),
        ("meeboter-pool-zoom-117", ("zoom", 117)),
        ("pool-microsoft-teams-002", ("teams", 2)),
        ("pool-google-meet", None),
        ("google-meet-001", None),
        ("pool--1", None),
    ],
)
def test_pool_and_number_follow_from_the_slot_name(
    name: str, expected: tuple[str, int] | None
) -> None:
    assert pool_and_number(name) == expected


def test_of_duplicates_the_row_with_a_bot_is_kept_else_the_lowest_id() -> None:
    assert steps(slot(1), slot(2), slot(3)) == {1: "adopt", 2: "delete", 3: "delete"}
    ended = slot(3, bot_id=7, bot_status="DONE")
    assert steps(slot(1), slot(2), ended) == {3: "adopt", 1: "delete", 2: "delete"}
    live = slot(2, bot_id=8, bot_status="IN_CALL")
    assert steps(slot(1), live, ended) == {2: "wait", 1: "delete", 3: "delete"}


def test_duplicate_with_a_live_bot_waits() -> None:
    first = slot(1, bot_id=7, bot_status="IN_CALL")
    second = slot(2, bot_id=8, bot_status="JOINING_CALL")
    assert steps(first, second) == {1: "wait", 2: "wait"}


def test_row_that_was_taken_over_is_kept_before_all_others() -> None:
    moved = slot(2, status="botpool")
    live = slot(1, bot_id=7, bot_status="IN_CALL")
    assert steps(live, moved) == {2: "adopt", 1: "wait"}
    assert steps(live, moved, owned={ContainerId("app-2"): "pool-google-meet-001"}) == {
        2: "done",
        1: "wait",
    }


def test_slot_of_botpool_is_never_deleted_as_a_duplicate() -> None:
    """Meeboter made a row idle again that an import had taken over."""
    owned = {ContainerId("app-2"): "pool-google-meet-001"}
    assert steps(slot(1), slot(2), owned=owned)[2] == "done"


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({"status": "error"}, "adopt"),
        ({"status": "IDLE"}, "adopt"),
        ({"status": "busy"}, "skip"),
        ({"status": "deploying", "bot_id": 1, "bot_status": "DEPLOYING"}, "wait"),
        ({"status": "busy", "bot_id": 1, "bot_status": None}, "wait"),
        ({"status": "error", "bot_id": 1, "bot_status": "FATAL"}, "adopt"),
        # Meeboter's own release would make the slot idle again.
        ({"status": "busy", "bot_id": 1, "bot_status": "FATAL"}, "wait"),
        ({"slot_name": "pool-zoom-001"}, "skip"),
        ({"slot_name": "web"}, "skip"),
    ],
)
def test_slot_is_adopted_only_without_a_live_bot(changes: dict[str, object], step: str) -> None:
    assert steps(slot(1, **changes)) == {1: step}


@pytest.mark.parametrize(
    ("meeting", "remaining_ms", "step"),
    [
        ({"meetingUrl": "https://x", "platform": "google-meet"}, 1000, "queue"),
        ({"meetingUrl": "https://x", "platform": "microsoft-teams"}, 1000, "queue"),
        ({"meetingUrl": "https://x", "platform": "zoom"}, 1000, "skip"),
        ({"meetingUrl": "https://x"}, 1000, "skip"),
        ({"platform": "google-meet"}, 1000, "skip"),
        (None, 1000, "skip"),
        ({"meetingUrl": "https://x", "platform": "google-meet"}, 0, "skip"),
    ],
)
def test_bot_is_queued_if_it_has_a_link_a_pool_and_time(
    meeting: dict[str, str] | None, remaining_ms: int, step: str
) -> None:
    bot = MeeboterBot(
        bot_id=1,
        priority=100,
        remaining_ms=remaining_ms,
        display_name=None,
        meeting=meeting,
        details={},
    )
    assert [plan.step for plan in plan_bots([bot], POOLS)] == [step]
