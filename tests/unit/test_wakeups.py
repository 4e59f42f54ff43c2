"""Wake-ups: at once, or in a moment for several statements of a burst."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database


@pytest.fixture
async def wakeups() -> AsyncIterator[Wakeups]:
    created = Wakeups(cast("Database", None), owner="test")
    yield created
    await created.stop()


async def test_due_slots_wake_the_reconciler_at_once(wakeups: Wakeups) -> None:
    wakeups.wake_reconcilers()
    assert wakeups.slots.is_set()


async def test_one_delayed_wakeup_covers_several_calls(wakeups: Wakeups) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(3):
        wakeups.wake_reconcilers_soon()
    assert not wakeups.slots.is_set()
    await wakeups.slots.wait()
    assert loop.time() - began >= 0.019
    wakeups.slots.clear()
    await asyncio.sleep(0.05)
    assert not wakeups.slots.is_set(), "the calls share one wake-up"


async def test_wakeup_after_a_delayed_one_is_delayed_again(wakeups: Wakeups) -> None:
    for _ in range(2):
        wakeups.wake_reconcilers_soon()
        assert not wakeups.slots.is_set()
        await wakeups.slots.wait()
        wakeups.slots.clear()


async def test_stopped_replica_sends_no_delayed_wakeup(wakeups: Wakeups) -> None:
    wakeups.wake_reconcilers_soon()
    await wakeups.stop()
    await asyncio.sleep(0.05)
    assert not wakeups.slots.is_set()
