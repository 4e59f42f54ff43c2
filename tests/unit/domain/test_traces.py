"""The trace of a bot, and the spans that follow from its history."""

from datetime import UTC, datetime, timedelta

import pytest

from botpool.domain.ids import BotId
from botpool.domain.trace_context import (
    container_traceparent,
    span_id_of,
    trace_of,
    valid_traceparent,
)
from botpool.domain.trace_spans import Span, TracedBot, TraceRow, spans_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BOT = BotId(7)


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        (HEADER, HEADER),
        (f" {HEADER} ", HEADER),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"cc-{TRACE}-{SPAN}-03-later", HEADER),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (HEADER.upper(), None),
        ("", None),
        (None, None),
        ("x" * 10_000, None),
    ],
)
def test_traceparent_is_read_as_the_recommendation_says(
    header: str | None, kept: str | None
) -> None:
    assert valid_traceparent(header) == kept


def test_bot_continues_the_trace_of_its_request_and_its_container_that_of_the_bot() -> None:
    trace = trace_of(BOT, "any", HEADER)
    assert (trace.trace_id, trace.parent_span_id, trace.is_sampled) == (TRACE, SPAN, True)
    handed_on = container_traceparent(BOT, trace)
    assert valid_traceparent(handed_on) == handed_on
    assert handed_on == f"00-{TRACE}-{span_id_of(trace, BOT, 'bot')}-01"
    unwanted = trace_of(BOT, "any", f"00-{TRACE}-{SPAN}-00")
    assert container_traceparent(BOT, unwanted).endswith("-00")


def test_bot_without_traceparent_has_a_trace_that_follows_from_its_correlation_id() -> None:
    assert trace_of(BOT, TRACE, None).trace_id == TRACE
    own = {trace_of(BotId(n), "order-12", None).trace_id for n in (7, 7, 8)}
    assert len(own) == 2
    assert all(len(each) == 32 and int(each, 16) for each in own)
    assert trace_of(BOT, "0" * 32, None).trace_id != "0" * 32


def history(text: str) -> list[TraceRow]:
    """Rows from lines such as `bot.status DEPLOYING JOINING_CALL`, a second apart."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        kind, before, after, *reason = line.split()
        row = TraceRow(
            id=number, at=NOON + timedelta(seconds=number), kind=kind,
            from_state=None if before == "-" else before, to_state=after,
            slot_name="pool-zoom-001" if "slot" in kind else None, reason=" ".join(reason) or "x",
        )  # fmt: skip
        rows.append(row)
    return rows


def spans(text: str) -> list[Span]:
    bot = TracedBot(
        id=BOT, pool_name="zoom", tenant="default", correlation_id="c",
        trace=trace_of(BOT, "c", HEADER), rows=history(text),
    )  # fmt: skip
    return spans_of(bot)


def tree(found: list[Span]) -> list[str]:
    """Each span as `parent/name begin-end`, in seconds after noon."""
    names = {span.span_id: span.name for span in found}
    lines = []
    for span in found:
        seconds = [round((at - NOON).total_seconds()) for at in (span.began_at, span.ended_at)]
        parent = names.get(span.parent_id or "", "-")
        lines.append(f"{parent}/{span.name} {seconds[0]}-{seconds[1]}")
    return lines


CALL = """\
bot.status - PENDING
bot.status PENDING QUEUED
bot.status QUEUED DEPLOYING
slot.status idle deploying
slot.phase creating waiting_for_image
slot.phase waiting_for_image starting
slot.status deploying busy
bot.status DEPLOYING JOINING_CALL
bot.status JOINING_CALL IN_WAITING_ROOM
bot.status IN_WAITING_ROOM IN_CALL
bot.status IN_CALL CALL_ENDED
bot.status CALL_ENDED DONE
slot.status busy releasing
slot.status releasing idle"""


def test_every_phase_of_a_bot_is_a_span() -> None:
    found = spans(CALL)
    assert tree(found) == [
        "bot/queued 1-3",
        "deploying/creating 3-5",
        "deploying/waiting_for_image 5-6",
        "deploying/starting 6-8",
        "attempt 1/deploying 3-8",
        "attempt 1/joining 8-9",
        "attempt 1/waiting_room 9-10",
        "attempt 1/in_call 10-11",
        "attempt 1/finishing 11-12",
        "-/bot 1-12",
        "attempt 1/release 13-14",
        "bot/attempt 1 3-14",
    ]
    root = next(span for span in found if span.name == "bot")
    assert (root.trace_id, root.parent_id, root.failure) == (TRACE, SPAN, None)
    assert root.attributes["botpool.outcome"] == "DONE"
    assert len({span.span_id for span in found}) == len(found)


def test_span_is_known_when_its_phase_has_ended_and_never_changes() -> None:
    lines = CALL.split("\n")
    whole = spans(CALL)
    for count in range(1, len(lines) + 1):
        early = spans("\n".join(lines[:count]))
        assert early == [span for span in whole if span.ended_by <= count]


def test_second_attempt_is_linked_to_the_first() -> None:
    found = spans("""\
bot.status - PENDING
bot.status PENDING DEPLOYING
slot.phase creating starting
slot.status deploying releasing
bot.status DEPLOYING QUEUED image not found
slot.status releasing error
bot.status QUEUED DEPLOYING
bot.status DEPLOYING FAILED no such image
slot.status deploying releasing
slot.status releasing idle""")
    by_name = {span.name: span for span in found}
    assert by_name["attempt 2"].links == (by_name["attempt 1"].span_id,)
    assert by_name["attempt 1"].links == ()
    assert [span.failure for span in found if span.name == "deploying"] == [
        "image not found",
        "no such image",
    ]
    assert by_name["bot"].failure == "no such image"


def test_hand_over_to_a_standby_has_no_phases_of_a_start() -> None:
    found = spans("""\
bot.status - PENDING
bot.status PENDING DEPLOYING
slot.status idle deploying
bot.status DEPLOYING JOINING_CALL""")
    assert tree(found) == ["-/queued 1-2", "-/deploying 2-4"]
