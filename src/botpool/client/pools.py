"""The calls for pools. They need a key with scope `operator`."""

import re
from collections.abc import Callable

from botpool.client import errors
from botpool.client.calls import Calls, without_none
from botpool.client.records import Plan, Pool, PoolSample, Schedule
from botpool.client.synchronous import Synchronous, synchronous

_POOL_NAME = re.compile(r"[A-Za-z0-9-]+")


class AsyncPoolCalls(Calls):
    """Pools with their figures, plans and schedules."""

    async def pools(self) -> list[Pool]:
        return await self._list(Pool, "/v1/pools", "pools")

    async def pool(self, platform: str) -> Pool:
        return await self._pool("GET", platform)

    async def pool_activity(self, platform: str, *, minutes: int | None = None) -> list[PoolSample]:
        """The figures of a pool for each of the last minutes."""
        path = f"{pool_path(platform)}/activity"
        return await self._list(PoolSample, path, "minutes", minutes=minutes)

    async def pool_schedule(self, platform: str, *, hours: int | None = None) -> Schedule:
        """The bookings of a pool for the next hours."""
        path, params = f"{pool_path(platform)}/schedule", without_none(hours=hours)
        return await self._record(Schedule, "GET", path, params=params)

    async def plan(
        self,
        platform: str,
        *,
        replay_s: float | None = None,
        slo: float | None = None,
        within_s: float | None = None,
        timezone: str | None = None,
    ) -> Plan:
        """Replay the recorded bots of a pool under other warm floors.

        Without arguments: the last seven days, and the goal that 99.9 % of bots run within 5 s.
        """
        params = without_none(
            replayMs=None if replay_s is None else round(replay_s * 1000),
            slo=slo,
            withinMs=None if within_s is None else round(within_s * 1000),
            timezone=timezone,
        )
        return await self._record(Plan, "GET", f"{pool_path(platform)}/plan", "plan", params=params)

    async def drain_pool(self, platform: str) -> Pool:
        """Cordon all slots of a pool and admit no new bots to it."""
        return await self._pool("POST", platform, "/drain")

    async def undrain_pool(self, platform: str) -> Pool:
        return await self._pool("POST", platform, "/undrain")

    async def wait_until_drained(
        self, pool: Pool, *, on_poll: Callable[[Pool], None] | None = None
    ) -> Pool:
        """Poll a drained pool until none of its slots has a bot.

        Raises `Conflict` if the pool is undrained meanwhile. Tolerates a server that restarts.
        """

        def is_last(found: Pool) -> bool:
            if not found.drained:
                raise errors.Conflict(
                    409, f"Pool {pool.platform} is open: an operator undrained it."
                )
            if on_poll is not None:
                on_poll(found)
            return not found.slots_with_bot

        return await self._poll(pool, lambda: self.pool(pool.platform), is_last)

    async def _pool(self, method: str, platform: str, action: str = "") -> Pool:
        return await self._record(Pool, method, f"{pool_path(platform)}{action}", "pool")


class PoolCalls(Synchronous):
    """The synchronous calls for pools."""

    pools = synchronous(AsyncPoolCalls.pools)
    pool = synchronous(AsyncPoolCalls.pool)
    pool_activity = synchronous(AsyncPoolCalls.pool_activity)
    pool_schedule = synchronous(AsyncPoolCalls.pool_schedule)
    plan = synchronous(AsyncPoolCalls.plan)
    drain_pool = synchronous(AsyncPoolCalls.drain_pool)
    undrain_pool = synchronous(AsyncPoolCalls.undrain_pool)
    wait_until_drained = synchronous(AsyncPoolCalls.wait_until_drained)


def pool_path(platform: str) -> str:
    """Return the path of a pool. A name with other characters could become another path."""
    if not _POOL_NAME.fullmatch(platform):
        raise errors.NotFound(404, f"There is no pool {platform!r}.")
    return f"/v1/pools/{platform}"
