"""Log lines: the form of seed 000 on a terminal, JSON elsewhere."""

import errno
import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from botpool import logs
from botpool.domain.bot_ending import BotEnding
from botpool.domain.ids import BotId, ContainerId, SlotId
from botpool.domain.slots import SlotChange
from botpool.domain.states import BotStatus, SlotStatus
from botpool.engine.observability import event_log

Lines = Callable[..., list[str]]
SLOT = SlotChange(
    slot_id=SlotId(7),
    slot_name="pool-google-meet-001",
    container_id=ContainerId("c1"),
    bot_id=BotId(12),
    correlation_id="abc",
)
LONG_ID = ContainerId(64 * "c")


@pytest.fixture
def lines() -> Iterator[Lines]:
    """A function that logs through our processors and returns the written lines."""

    def logged(work: Callable[[], None], *, for_people: bool) -> list[str]:
        written: list[str] = []

        class Writer:
            def msg(self, line: str) -> None:
                written.append(line)

            info = warning = error = msg

        structlog.configure(
            processors=logs.processors(for_people=for_people), logger_factory=lambda *_: Writer()
        )
        work()
        return written

    yield logged
    structlog.reset_defaults()


def transition(**changes: Any) -> Callable[[], None]:
    slot = replace(SLOT, **changes)
    return lambda: event_log.slot_transition(
        slot, old=SlotStatus.IDLE, new=SlotStatus.DEPLOYING, reason="assigned"
    )


def test_slot_transition_as_text(lines: Lines) -> None:
    (line,) = lines(transition(), for_people=True)
    assert line[9:] == (
        "[Pool] [corr=abc] Slot pool-google-meet-001 (7): idle → deploying"
        ' | bot=12 | container=c1 | reason="assigned"'
    )


def test_missing_values_are_none(lines: Lines) -> None:
    (line,) = lines(
        transition(bot_id=None, container_id=None, correlation_id=None), for_people=True
    )
    assert line[9:] == (
        "[Pool] Slot pool-google-meet-001 (7): idle → deploying"
        ' | bot=none | container=none | reason="assigned"'
    )


def test_release_as_text_has_the_bots_end_and_its_duration(lines: Lines) -> None:
    release = event_log.Release(
        SLOT, BotStatus.DONE, 61.2345, new=SlotStatus.IDLE, reason="stopped", gone=None
    )
    (line,) = lines(lambda: event_log.slots_released([release]), for_people=True)
    assert line[9:] == (
        "[Pool] [corr=abc] Slot pool-google-meet-001 (7): releasing → idle"
        ' | bot=12 | container=c1 | bot_status=DONE | duration_s=61.234 | reason="stopped"'
    )


def test_bot_transition_as_text(lines: Lines) -> None:
    (line,) = lines(
        lambda: event_log.bot_transition(
            bot_id=BotId(12),
            pool="teams",
            old=BotStatus.QUEUED,
            new=BotStatus.FAILED,
            correlation_id="abc",
            reason="queue timeout",
        ),
        for_people=True,
    )
    assert line[9:] == (
        '[Pool] [corr=abc] Bot 12: QUEUED → FAILED | pool=teams | reason="queue timeout"'
    )


def test_slot_transition_as_json(lines: Lines) -> None:
    (line,) = lines(transition(), for_people=False)
    event = json.loads(line)
    del event["timestamp"]
    assert event == {
        "event": "slot.transition",
        "level": "info",
        "slot": 7,
        "name": "pool-google-meet-001",
        "container": "c1",
        "from": "idle",
        "to": "deploying",
        "bot": 12,
        "correlation_id": "abc",
        "reason": "assigned",
    }


@pytest.mark.parametrize("for_people", [True, False])
def test_batch_of_assignments_has_a_line_per_slot_and_few_writes(
    lines: Lines, for_people: bool
) -> None:
    def work() -> None:
        with structlog.contextvars.bound_contextvars(correlation_id="bound"):
            event_log.bots_assigned(slots, reason="assigned")

    ids = [f"{n:0128}" for n in range(20)]
    slots = [replace(SLOT, container_id=LONG_ID, correlation_id=each) for each in ids]
    written = lines(work, for_people=for_people)
    assert len(written) == 4
    assert all(len(text) < 4096 for text in written), "a pipe takes no more in one piece"
    found = [line for text in written for line in text.split("\n")]
    assert len(found) == 20
    assert all(own in line for own, line in zip(ids, found, strict=True))
    (alone,) = lines(
        lambda: event_log.bots_assigned(slots[:1], reason="assigned"), for_people=for_people
    )
    if for_people:
        assert found[0][9:] == alone[9:]
    else:
        first, only = json.loads(found[0]), json.loads(alone)
        assert first | {"timestamp": ""} == only | {"timestamp": ""}


@pytest.mark.parametrize("for_people", [True, False])
@pytest.mark.parametrize("reason", ["r" * 100, "r" * 2_000, "é" * 100])
def test_lines_of_a_batch_fit_into_a_pipe_write(
    lines: Lines, for_people: bool, reason: str
) -> None:
    slot = replace(SLOT, container_id=LONG_ID, correlation_id=128 * "i")
    release = event_log.Release(
        slot, BotStatus.CANCELLED, 123456.789, SlotStatus.ERROR, reason, gone=LONG_ID
    )
    releases = [release] * 20
    ending = BotEnding(status=BotStatus.CANCELLED, reason=reason)
    ends = [event_log.End(slot, SlotStatus.DEPLOYING, ending)] * 20
    for work in (lambda: event_log.slots_released(releases), lambda: event_log.bots_ended(ends)):
        written = lines(work, for_people=for_people)
        assert all("\n" not in text or len(text) < 4096 for text in written)
        found = [line for text in written for line in text.split("\n")]
        assert len(found) == 20
        assert (len(written) < 20) == (reason == "r" * 100)


def test_value_without_a_json_form_is_its_repr(lines: Lines) -> None:
    (line,) = lines(lambda: structlog.get_logger().info("observed", ids={7}), for_people=False)
    assert json.loads(line)["ids"] == "{7}"


def test_every_line_has_the_correlation_id(lines: Lines) -> None:
    def work() -> None:
        with structlog.contextvars.bound_contextvars(correlation_id="bound"):
            structlog.get_logger().info("backend.unavailable", backend="process")
            transition()()

    other, own = (json.loads(line) for line in lines(work, for_people=False))
    assert other["correlation_id"] == "bound"
    assert own["correlation_id"] == "abc", "a bot's own wins over that of the work at hand"


def test_line_and_line_break_are_one_write() -> None:
    """Lines of several processes that share a file are not mixed."""
    written: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    logs.configure(stream=Stream(), for_people=False)
    try:
        structlog.get_logger().info("it.happened")
    finally:
        structlog.reset_defaults()
    (line,) = written
    assert line.endswith("\n")
    assert json.loads(line)["event"] == "it.happened"


def test_line_that_cannot_be_written_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "no space left")

        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("sys.stderr", Full())
    logs.configure()
    try:
        structlog.get_logger().info("it.happened")
    finally:
        structlog.reset_defaults()


HOSTILE = "done\n12:00:00 [Pool] forged \x1b[2J\x9b31m \u202etxt"


@pytest.mark.parametrize("for_people", [True, False], ids=["text", "json"])
def test_text_of_agents_cannot_forge_lines_or_steer_a_terminal(
    lines: Lines, for_people: bool
) -> None:
    log = structlog.get_logger()

    def work() -> None:
        log.info("agent.said", text=HOSTILE)
        log.info(
            "bot.transition",
            **{"bot": 7, "from": "IN_CALL", "to": "FAILED", "reason": HOSTILE},
        )

    for line in lines(work, for_people=for_people):
        assert line.isprintable()


@pytest.mark.parametrize("for_people", [True, False], ids=["text", "json"])
@pytest.mark.parametrize(
    "text",
    [
        "cannot join https://zoom.us/j/1?pwd=hunter2 now",
        "two links: https://a.example/?x=1&pwd=hunter2, https://b.example/#hunter2",
        'new row violates check\nDETAIL:  Failing row contains (1, {"pin": "hunter2"}, null).',
    ],
)
def test_logs_contain_no_passwords_of_meetings(lines: Lines, text: str, for_people: bool) -> None:
    def work() -> None:
        try:
            raise ValueError(text)
        except ValueError as error:
            structlog.get_logger().error("request.failed", problem=text, exc_info=error)

    (line,) = lines(work, for_people=for_people)
    assert "hunter2" not in line


def test_messages_of_libraries_contain_no_passwords() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    former = root.handlers[:]
    root.handlers.clear()
    try:
        logs.configure(stream=stream, for_people=True)
        logging.getLogger("library").warning("got https://zoom.us/j/1?pwd=hunter2\x1b[2J")
    finally:
        root.handlers[:] = former
        structlog.reset_defaults()
    assert stream.getvalue() == "library: got https://zoom.us/j/1?***\n"
