"""Engine tests run with a frozen clock."""

import pytest

from tests.support.clock import Clock
from tests.support.replicas import Stage


@pytest.fixture
async def stage(stage: Stage, clock: Clock) -> Stage:
    """A stage whose clock only a test moves, so that a slow machine ends no grace period."""
    clock.freeze()
    return stage
