"""Estimates are measured at most twice a second, and who asks often does not wait for them."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import PoolName
from botpool.engine.admission.estimates import Estimates
from botpool.store.database import Database
from botpool.store.query import Statement

TEAMS = PoolName("teams")


@dataclass
class Counted:
    """A database whose queue grows by a thousand at every look, and a clock."""

    now_s: float = 100.0
    looks: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    broken: bool = False

    async def query(self, statement: Statement[Any]) -> Any:
        self.looks += 1
        bots = self.looks * 1000 + 1000
        await self.answers.wait()
        if self.broken:
            raise DatabaseUnavailable("it is away")
        return statement.result_of([{"tenant": "default", "priority": 100, "bots": bots}])


@pytest.fixture
def counted() -> Counted:
    counted = Counted()
    counted.answers.set()
    return counted


@pytest.fixture
def estimates(counted: Counted) -> Estimates:
    return Estimates(cast("Database", counted), monotonic=lambda: counted.now_s)


async def position(estimates: Estimates) -> int:
    async with asyncio.timeout(5):
        return await estimates.position_behind_counted(TEAMS, "default", 100)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_concurrent_callers_share_one_measurement(
    counted: Counted, estimates: Estimates
) -> None:
    counted.answers.clear()
    asked = [asyncio.create_task(position(estimates)) for _ in range(10)]
    await settle()
    counted.answers.set()
    assert await asyncio.gather(*asked) == [2000] * 10
    counted.now_s += 0.5
    assert await position(estimates) == 2000
    assert counted.looks == 1


async def test_usable_measurement_is_returned_at_once(
    counted: Counted, estimates: Estimates
) -> None:
    await position(estimates)
    counted.answers.clear()
    counted.now_s += 0.9
    assert [await position(estimates) for _ in range(3)] == [2000] * 3
    await settle()
    assert counted.looks == 2, "one look for all of them, behind their back"
    counted.answers.set()
    await settle()
    assert await position(estimates) == 3000


async def test_old_measurement_is_not_returned(counted: Counted, estimates: Estimates) -> None:
    await position(estimates)
    counted.now_s += 1.1
    assert await position(estimates) == 3000


async def test_failed_measurement_is_repeated(counted: Counted, estimates: Estimates) -> None:
    counted.broken = True
    with pytest.raises(DatabaseUnavailable):
        await position(estimates)
    counted.broken = False
    assert await position(estimates) == 3000
