from collections.abc import AsyncIterator

import pytest

from tests.backends.emulator.coolify_client import NO_LAG, CoolifyClient, emulated


@pytest.fixture
async def lagging_coolify() -> AsyncIterator[CoolifyClient]:
    """An emulated Coolify with the default delays and status lag."""
    async with emulated() as coolify:
        yield coolify


@pytest.fixture
async def coolify() -> AsyncIterator[CoolifyClient]:
    """An emulated Coolify without status lag; a stop takes 30 s, a delete 5 s."""
    async with emulated(NO_LAG) as coolify:
        yield coolify
