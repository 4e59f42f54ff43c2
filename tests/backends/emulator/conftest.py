from collections.abc import AsyncIterator

import pytest

from tests.backends.emulator.emulated_coolify import NO_LAG, Coolify, emulated


@pytest.fixture
async def coolify() -> AsyncIterator[Coolify]:
    """As it is by nature, with its lags."""
    async with emulated() as coolify:
        yield coolify


@pytest.fixture
async def prompt() -> AsyncIterator[Coolify]:
    """Statuses follow the truth at once; a stop takes 30 s, a delete 5 s."""
    async with emulated(NO_LAG) as coolify:
        yield coolify
