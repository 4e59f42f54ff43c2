from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.plan import AGENTS, Launcher, launcher, wrapped_bot
from tests.support.fake_control_plane import ControlPlane


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane()
    plane.up()
    yield plane
    plane.down()


@pytest.fixture(params=AGENTS)
def agent(
    request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path
) -> Iterator[Launcher]:
    """Each of the agents in turn."""
    with launcher(plane, tmp_path, AGENTS[request.param]) as launched:
        yield launched


@pytest.fixture
def wrapper(plane: ControlPlane, tmp_path: Path) -> Iterator[Launcher]:
    with launcher(plane, tmp_path, wrapped_bot) as launched:
        yield launched
