"""Heartbeats and the orders that they bring back."""

import asyncio
import logging

import pytest

from botpool.agent.backoff import Backoff, spread
from tests.support.fake_control_plane import BOT_ID, ControlPlane, Fault, MakeAgent, Until

JSON = {"Content-Type": "application/json"}


async def test_first_heartbeat_is_immediate_then_follows_the_interval(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    async with make_agent():
        await until(lambda: len(plane.of("heartbeat")) >= 4)
    assert {call.path for call in plane.of("heartbeat")} == {f"/v1/agent/bots/{BOT_ID}/heartbeat"}

    plane.calls.clear()
    plane.heartbeat_interval_ms = 60_000
    async with make_agent() as agent:
        await until(lambda: plane.of("heartbeat"))
        await agent.report("IN_CALL")
        await asyncio.sleep(0.1)
    assert len(plane.of("heartbeat")) == 1


async def test_heartbeat_resumes_after_outage(
    plane: ControlPlane, make_agent: MakeAgent, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_agent() as agent:
        await until(lambda: plane.of("heartbeat"))
        plane.down()
        await asyncio.sleep(0.1)
        assert not agent.leave_requested.is_set()
        seen = len(plane.of("heartbeat"))
        plane.up()
        await until(lambda: len(plane.of("heartbeat")) > seen + 2)
    outages = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(outages) == 2, "one line where it began, one where it ended"


@pytest.mark.parametrize("status", [401, 404, 429, 500])
async def test_error_response_to_heartbeat_does_not_end_the_meeting(
    plane: ControlPlane, make_agent: MakeAgent, until: Until, status: int
) -> None:
    plane.fail("heartbeat", *[Fault(status=status, headers=JSON, body=b"{}")] * 3)
    async with make_agent() as agent:
        await until(lambda: len(plane.of("heartbeat")) >= 2)
        assert not agent.leave_requested.is_set()
        assert not agent.released


async def test_heartbeat_carries_a_body_only_if_the_bot_has_something_to_tell(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    plane.heartbeat_interval_ms = 60_000
    async with make_agent() as agent:
        await until(lambda: plane.of("heartbeat"))
        assert plane.of("heartbeat")[0].body is None
        agent.progress(bytesUploaded=1024)
        agent.finishing()
        await until(lambda: len(plane.of("heartbeat")) == 2)
        agent.finishing()
        await asyncio.sleep(0.1)
    bodies = [call.body for call in plane.of("heartbeat")]
    assert bodies == [None, {"phase": "finishing", "progress": {"bytesUploaded": 1024}}]
    with pytest.raises(ValueError, match="JSON"):
        agent.progress(share=float("nan"))


async def test_leave_request_reaches_the_bot(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    heard: list[str] = []

    async def hang_up() -> None:
        await asyncio.sleep(0)
        heard.append("async")

    async with make_agent() as agent:
        agent.on_leave(lambda: heard.append("plain"))
        agent.on_leave(hang_up)
        await until(lambda: plane.of("heartbeat"))
        assert heard == []
        plane.should_leave = True
        await asyncio.wait_for(agent.leave_requested.wait(), 30)
        await until(lambda: len(heard) == 2)
        beats = len(plane.of("heartbeat"))
        await until(lambda: len(plane.of("heartbeat")) > beats + 2)
        assert not agent.released
        await agent.report("CALL_ENDED")
        agent.on_leave(lambda: heard.append("late"))
    assert heard == ["plain", "async", "late"], "each of them once"
    assert plane.statuses == ["CALL_ENDED", "DONE"]


async def test_failing_leave_callback_is_logged_only(
    plane: ControlPlane, make_agent: MakeAgent, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail() -> None:
        raise RuntimeError("plain failure")

    async def fail_later() -> None:
        raise RuntimeError("async failure")

    async with make_agent() as agent:
        for callback in (fail, fail_later, lambda: heard.append("third")):
            agent.on_leave(callback)
        plane.should_leave = True
        await until(lambda: heard == ["third"])
        beats = len(plane.of("heartbeat"))
        await until(lambda: len(plane.of("heartbeat")) > beats)
    assert "plain failure" in caplog.text
    assert "async failure" in caplog.text
    assert plane.statuses == ["DONE"]


async def test_running_leave_callback_is_cancelled_at_the_end(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    cancelled = asyncio.Event()

    async def linger() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async with asyncio.timeout(30), make_agent() as agent:
        agent.on_leave(linger)
        agent.leave()
        await asyncio.sleep(0)
    assert cancelled.is_set()


async def test_release_during_the_meeting_stops_reports(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    plane.fail("status", *[Fault(status=503)] * 1000)
    left: list[bool] = []
    async with asyncio.timeout(30), make_agent(final_report_limit_s=60) as agent:
        agent.on_leave(lambda: left.append(True))
        await agent.report("IN_CALL")
        plane.should_exit = True
        await agent.exit_requested.wait()
        assert agent.released
        assert agent.leave_requested.is_set()
        assert left == [True]
        await plane.quiet_for(0.1)
        plane.faults.clear()
        requests = plane.requests
        await agent.report("CALL_ENDED")
        await agent.event("chat")
        await asyncio.sleep(0.1)
    assert plane.requests == requests


def test_backoff_doubles_up_to_the_cap_with_jitter() -> None:
    many = [Backoff(first_s=1.0, cap_s=5.0).delays_s() for _ in range(200)]
    for highest in (1.0, 2.0, 4.0, 5.0, 5.0):
        delays = [next(delays) for delays in many]
        assert all(highest / 2 <= delay <= highest for delay in delays)
        assert len(set(delays)) > 100
    assert 9 <= spread(10, 0.9, 1.1) <= 11
