import asyncio
from collections.abc import Callable, Iterator

import pytest

from botpool.agent import Agent
from botpool.agent.backoff import Backoff
from tests.support.fake_control_plane import ControlPlane, MakeAgent, Until


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane()
    plane.up()
    yield plane
    plane.down()


@pytest.fixture
def make_agent(plane: ControlPlane) -> MakeAgent:
    """An agent of `plane` that loses no time between two tries."""

    def make(**options: object) -> Agent:
        fast = {"backoff": Backoff(first_s=0.005, cap_s=0.02), "final_report_limit_s": 5.0}
        return Agent.from_environment(plane.environment(), **(fast | options))

    return make


@pytest.fixture
def until() -> Until:
    """Wait until something holds; the test fails if it does not within seconds."""

    async def wait(holds: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await asyncio.sleep(0.005)

    return wait
