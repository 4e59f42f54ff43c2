"""Statuses and events: none lost, none out of order, none that hold up the meeting."""

import asyncio
import json

import pytest

from botpool.agent import Released
from botpool.agent.outbox import WAITING_EVENTS
from tests.unit.agent.fake_control_plane import TOKEN, ControlPlane, Fault, MakeAgent, Until

JSON = {"Content-Type": "application/json"}


async def test_reports_in_order_and_done_at_the_end(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        for status in ("JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED"):
            await agent.report(status)
    assert plane.statuses == ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE"]
    assert plane.of("status")[0].body == {"status": "JOINING_CALL"}


async def test_a_failure_carries_its_reason_and_is_the_last_word(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        await agent.report("FAILED", reason="The host refused the bot.")
    assert plane.statuses == ["FAILED"]
    assert plane.failure_reason == "The host refused the bot."


@pytest.mark.parametrize("final", ["DONE", "FATAL"])
async def test_an_end_that_was_reported_is_not_reported_again(
    plane: ControlPlane, make_agent: MakeAgent, final: str
) -> None:
    with pytest.raises(RuntimeError):
        async with make_agent() as agent:
            await agent.report(final)
            raise RuntimeError
    assert plane.statuses == [final]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RuntimeError("no microphone"), "FAILED", "no microphone"),
        (TimeoutError(), "FAILED", "TimeoutError"),
        (RuntimeError(f"env: {TOKEN}"), "FAILED", "env: ***"),
        (RuntimeError("x" * 5000), "FAILED", "x" * 1000),
        (asyncio.CancelledError(), "FAILED", "The bot was stopped before it had ended."),
        (SystemExit(3), "FAILED", "The bot exited with 3."),
        (SystemExit(0), "DONE", None),
    ],
    ids=["text", "no text", "token", "long", "cancelled", "exit 3", "exit 0"],
)
async def test_what_leaves_the_body_is_reported(
    plane: ControlPlane,
    make_agent: MakeAgent,
    error: BaseException,
    status: str,
    reason: str | None,
) -> None:
    agent = await make_agent().__aenter__()
    await agent.__aexit__(type(error), error, None)
    assert plane.statuses == [status]
    assert plane.failure_reason == reason


async def test_released_raised_by_the_bot_reports_nothing(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    with pytest.raises(Released):
        async with make_agent() as agent:
            raise Released(agent.bot.id)
    assert plane.statuses == []


async def test_an_outage_neither_loses_nor_reorders_nor_blocks(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        await agent.report("JOINING_CALL")
        assert await agent.flush(5)
        plane.down()
        await agent.report("IN_CALL")
        await agent.event("chat", {"text": "hi"})
        await agent.report("CALL_ENDED")
        assert not await agent.flush(0.05)
        plane.up()
    assert plane.statuses == ["JOINING_CALL", "IN_CALL", "CALL_ENDED", "DONE"]
    order = [call.resource for call in plane.calls if call.resource in ("status", "events")]
    assert order == ["status", "status", "events", "status", "status"]


async def test_a_report_whose_answer_was_lost_is_sent_again_before_the_next(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    plane.fail("status", Fault(status=502, applied=True))
    async with make_agent() as agent:
        await agent.report("IN_CALL")
        await agent.report("CALL_ENDED")
    assert plane.statuses == ["IN_CALL", "IN_CALL", "CALL_ENDED", "DONE"]


async def test_a_refused_report_is_dropped_and_the_next_one_goes(
    plane: ControlPlane, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    plane.fail("status", Fault(status=422, headers=JSON, body=b'{"detail": "Unknown."}'))
    async with make_agent() as agent:
        await agent.report("IN_CALL")
    assert plane.statuses == ["DONE"]
    assert "Unknown." in caplog.text


async def test_the_last_report_is_given_up_after_its_limit(
    plane: ControlPlane, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(30), make_agent(final_report_limit_s=0.05) as agent:
        assert await agent.flush()
        plane.down()
    assert "Gave up on 1 reports" in caplog.text


async def test_cancelling_the_last_report_ends_it_and_leaves_no_task(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async def bot() -> None:
        async with make_agent(final_report_limit_s=60):
            plane.down()

    before = asyncio.all_tasks()
    task = asyncio.create_task(bot())
    await asyncio.sleep(0.1)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_cancelling_the_bot_reports_it_and_stays_cancelled(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    async def bot() -> None:
        async with make_agent() as agent:
            await agent.report("IN_CALL")
            await asyncio.sleep(60)

    task = asyncio.create_task(bot())
    await until(lambda: plane.statuses == ["IN_CALL"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert plane.statuses == ["IN_CALL", "FAILED"]


@pytest.mark.parametrize(
    ("status", "reason"), [("LEAVING", None), ("in_call", None), ("IN_CALL", "why not")]
)
async def test_what_no_agent_may_report_is_an_error_here(
    plane: ControlPlane, make_agent: MakeAgent, status: str, reason: str | None
) -> None:
    async with make_agent() as agent:
        with pytest.raises(ValueError, match=status):
            await agent.report(status, reason=reason)
    assert plane.statuses == ["DONE"]


async def test_events_that_wait_travel_together_a_hundred_at_a_time(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        await agent.events({"kind": "chat", "data": {"n": n}} for n in range(250))
        await agent.event("ended")
    assert [len(call.body["events"]) for call in plane.of("events")] == [100, 100, 51]
    assert [event["data"]["n"] for event in plane.events[:-1]] == list(range(250))
    assert plane.events[-1] == {"kind": "ended", "data": {}}


async def test_an_event_is_what_it_was_when_it_was_made(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    data = {"text": "Grüße"}
    async with make_agent() as agent:
        await agent.event("chat", data)
        data["text"] = "changed"
    assert plane.events == [{"kind": "chat", "data": {"text": "Grüße"}}]


async def test_what_cannot_be_an_event_is_an_error_here(make_agent: MakeAgent) -> None:
    async with make_agent() as agent:
        with pytest.raises(ValueError, match="larger than 8192 bytes"):
            await agent.event("chat", {"text": "ü" * 4096})
        with pytest.raises(ValueError, match="JSON"):
            await agent.event("level", {"db": float("nan")})
        with pytest.raises(TypeError):
            await agent.event("driver", {"object": object()})


async def test_events_beyond_the_limit_are_dropped_and_statuses_are_not(
    plane: ControlPlane, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_agent() as agent:
        plane.down()
        await agent.events({"kind": "chat", "data": {"n": n}} for n in range(WAITING_EVENTS + 1))
        await agent.report("IN_CALL")
        plane.up()
        assert await agent.flush(10)
        await agent.event("chat", {"n": "after"})
    kept = [json.dumps(event["data"]["n"]) for event in plane.events]
    assert kept == [*map(str, range(WAITING_EVENTS)), '"after"']
    assert plane.statuses == ["IN_CALL", "DONE"]
    assert "dropped" in caplog.text
