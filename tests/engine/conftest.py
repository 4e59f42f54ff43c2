"""The engine by itself: time stands still unless a test moves it."""

import pytest

from tests.support.clock import Clock
from tests.support.replicas import Stage


@pytest.fixture
async def stage(stage: Stage, clock: Clock) -> Stage:
    """A slow machine is no reason to end a grace."""
    clock.freeze()
    return stage
