"""Statuses and events: none lost, none out of order, none that hold up the meeting."""

import asyncio
import json

import pytest

from botpool.agent import Released
from botpool.agent.outbox import WAITING_EVENTS
from tests.support.fake_control_plane import TOKEN, ControlPlane, Fault, MakeAgent, Until

JSON = {"Content-Type": "application/json"}


async def test_statuses_are_reported_in_order_and_done_at_the_end(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        for status in ("JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED"):
            await agent.report(status)
    assert plane.statuses == ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE"]
    assert plane.of("status")[0].body == {"status": "JOINING_CALL"}


async def test_reported_failure_is_final_and_carries_its_reason(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        await agent.report("FAILED", reason="The host refused the bot.")
    assert plane.statuses == ["FAILED"]
    assert plane.failure_reason == "The host refused the bot."


@pytest.mark.parametrize("final", ["DONE", "FATAL"])
async def test_reported_end_is_not_repeated(
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
async def test_exception_of_the_block_becomes_the_failure_reason(
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


async def test_released_exception_reports_nothing(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    with pytest.raises(Released):
        async with make_agent() as agent:
            raise Released(agent.bot.id)
    assert plane.statuses == []


async def test_outage_keeps_reports_in_order_without_blocking_the_bot(
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


async def test_report_with_lost_answer_is_resent_before_the_next(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    plane.fail("status", Fault(status=502, applied=True))
    async with make_agent() as agent:
        await agent.report("IN_CALL")
        await agent.report("CALL_ENDED")
    assert plane.statuses == ["IN_CALL", "IN_CALL", "CALL_ENDED", "DONE"]


async def test_refused_report_is_dropped_and_the_next_is_sent(
    plane: ControlPlane, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    plane.fail("status", Fault(status=422, headers=JSON, body=b'{"detail": "Unknown."}'))
    async with make_agent() as agent:
        await agent.report("IN_CALL")
    assert plane.statuses == ["DONE"]
    assert "Unknown." in caplog.text


async def test_last_report_is_dropped_after_its_time_limit(
    plane: ControlPlane, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(30), make_agent(final_report_limit_s=0.05) as agent:
        assert await agent.flush()
        plane.down()
    assert "Dropped 1 reports" in caplog.text


async def test_cancelling_the_last_report_leaves_no_task(
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


async def test_cancelled_bot_reports_failure_and_propagates_the_cancel(
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
async def test_invalid_status_or_reason_raises_an_error(
    plane: ControlPlane, make_agent: MakeAgent, status: str, reason: str | None
) -> None:
    async with make_agent() as agent:
        with pytest.raises(ValueError, match=status):
            await agent.report(status, reason=reason)
    assert plane.statuses == ["DONE"]


async def test_queued_events_are_sent_in_batches_of_a_hundred(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with make_agent() as agent:
        await agent.events({"kind": "chat", "data": {"n": n}} for n in range(250))
        await agent.event("ended")
    assert [len(call.body["events"]) for call in plane.of("events")] == [100, 100, 51]
    assert [event["data"]["n"] for event in plane.events[:-1]] == list(range(250))
    assert plane.events[-1] == {"kind": "ended", "data": {}}


async def test_event_data_is_copied_when_reported(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    data = {"text": "Grüße"}
    async with make_agent() as agent:
        await agent.event("chat", data)
        data["text"] = "changed"
    assert plane.events == [{"kind": "chat", "data": {"text": "Grüße"}}]


async def test_invalid_event_raises_an_error(make_agent: MakeAgent) -> None:
    async with make_agent() as agent:
        with pytest.raises(ValueError, match="larger than 8192 bytes"):
            await agent.event("chat", {"text": "ü" * 4096})
        with pytest.raises(ValueError, match="JSON"):
            await agent.event("level", {"db": float("nan")})
        with pytest.raises(TypeError):
            await agent.event("driver", {"object": object()})


async def test_events_beyond_the_limit_are_dropped_but_statuses_are_kept(
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


async def test_limited_events_wait_and_statuses_overtake_them(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    limited = Fault(
        status=429, headers=JSON | {"Retry-After": "3600"}, body=b'{"detail": "too many"}'
    )
    plane.fail("events", limited)
    async with make_agent() as agent:
        await agent.event("chat", {"n": 1})
        await agent.report("IN_CALL")
        await until(lambda: plane.statuses == ["IN_CALL"])
        await agent.event("chat", {"n": 2})
        await agent.report("CALL_ENDED")
        await until(lambda: plane.statuses == ["IN_CALL", "CALL_ENDED"])
        assert plane.events == []
    assert plane.statuses == ["IN_CALL", "CALL_ENDED", "DONE"], "the end did not wait"


async def test_limited_events_are_delivered_after_their_wait(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    plane.fail("events", Fault(status=429, headers={"Retry-After": "1"}))
    async with make_agent() as agent:
        await agent.event("chat", {"n": 1})
        await agent.report("IN_CALL")
        await agent.event("chat", {"n": 2})
        await until(lambda: len(plane.events) == 2)
    assert [event["data"]["n"] for event in plane.events] == [1, 2]
    assert plane.statuses == ["IN_CALL", "DONE"]
