"""The wait for a stop, where the backend restarts every container that ends."""

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from botpool.agent import Released
from botpool.agent.environment import read_environment
from botpool.agent.errors import Misconfigured
from tests.support.fake_control_plane import ControlPlane, MakeAgent, Until

LONG_S = 600.0


@pytest.fixture(autouse=True)
def ignore_sigterm() -> Iterator[None]:
    """Keep a signal that arrives before the agent waits from ending the tests."""
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, former)


async def stop(task: asyncio.Task[Any]) -> None:
    """Send SIGTERM until the task ends, as it does once it waits for the signal."""
    async with asyncio.timeout(30):
        while not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait({task}, timeout=0.05)
    await task


async def test_agent_waits_for_sigterm_after_its_last_report(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    async def attend() -> None:
        async with make_agent(wait_for_stop_s=LONG_S):
            pass

    attending = asyncio.create_task(attend())
    await until(lambda: plane.statuses == ["DONE"])
    done, _ = await asyncio.wait({attending}, timeout=0.1)
    assert not done
    await stop(attending)


async def test_released_agent_waits_for_sigterm_before_it_exits(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    plane.released = True
    entering = asyncio.create_task(make_agent(wait_for_stop_s=LONG_S).__aenter__())
    await until(lambda: plane.calls)
    done, _ = await asyncio.wait({entering}, timeout=0.1)
    assert not done
    with pytest.raises(Released):
        await stop(entering)


async def test_wait_for_a_stop_has_a_limit(plane: ControlPlane, make_agent: MakeAgent) -> None:
    async with asyncio.timeout(30), make_agent(wait_for_stop_s=0.05):
        pass
    assert plane.statuses == ["DONE"]


async def test_agent_that_left_because_of_sigterm_does_not_wait_for_another(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    async with asyncio.timeout(30), make_agent(wait_for_stop_s=LONG_S) as agent:
        agent.leave()
    assert plane.statuses == ["DONE"]


async def test_report_of_the_end_is_delivered_while_the_agent_waits(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    agent = make_agent(wait_for_stop_s=LONG_S, final_report_limit_s=0.01)

    async def attend() -> None:
        async with agent:
            plane.down()

    attending = asyncio.create_task(attend())
    await until(lambda: agent._end_reported)
    await asyncio.sleep(0.05)
    plane.up()
    await until(lambda: plane.statuses == ["DONE"])
    await stop(attending)


@pytest.mark.parametrize(("text", "seconds"), [("600", 600.0), ("", 0.0), ("0", 0.0)])
def test_environment_sets_the_wait(plane: ControlPlane, text: str, seconds: float) -> None:
    environment = plane.environment() | {"BOTPOOL_WAIT_FOR_STOP_S": text}
    assert read_environment(environment)["wait_for_stop_s"] == seconds


def test_wait_that_is_no_number_is_refused(plane: ControlPlane) -> None:
    environment = plane.environment() | {"BOTPOOL_WAIT_FOR_STOP_S": "soon"}
    with pytest.raises(Misconfigured, match="BOTPOOL_WAIT_FOR_STOP_S"):
        read_environment(environment)
