"""Keeps as many standbys in each pool as its warm floors ask for.

A standby starts in an idle slot, which stays assignable meanwhile. Starts happen under the pool's
lock, so that two replicas do not start twice as many. A stop is committed before it is sent; the
reconciler sends it and makes the slot assignable after the confirmed stop. After a crash at any
point, the next round of any replica continues from the rows.

No standby starts while a replica is live whose version does not know standbys: it would stop them.
"""

from dataclasses import dataclass, fields

from botpool.domain.ids import PoolName
from botpool.domain.warm import BookedStart, StandbyChanges, Warm, WarmPool, standby_changes
from botpool.domain.warm_target import hot_target
from botpool.engine.service import Service
from botpool.store.database import Transaction
from botpool.store.liveness import find_replica_without_standbys
from botpool.store.pools import lock_pool
from botpool.store.standbys import (
    WarmPoolRow,
    add_slots,
    close_polls,
    list_warm_pools,
    start_standbys,
    stop_standbys,
)

INTERVAL_S = 1.0
ALIVE_S = 30.0
"""A replica counts as dead so long after its last record of liveness."""
LOST_POLL_S = 30.0
"""How long a standby may be without a poll before Botpool resets its slot."""
_BACKOFF_S = 10.0
"""How long a slot waits after a failed start of a standby; each reset doubles the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyKeeper(Service):
    """Starts, replaces and stops standbys."""

    async def keep(self) -> bool:
        """Start and stop standbys, as the target of each pool asks; False if no pool has any."""
        rows = await list_warm_pools(self.database, backoff_s=_BACKOFF_S)
        if not rows:
            return False
        await close_polls(self.database, owner=None, alive_s=ALIVE_S, lost_s=LOST_POLL_S)
        pools = [warm_pool_of(row) for row in rows]
        for pool in pools:
            surplus = changes_of(pool).surplus
            if surplus or pool.forced:
                await self._stop(pool.pool_name, surplus)
        wanting = [pool.pool_name for pool in pools if changes_of(pool).starts]
        if wanting and await self._every_replica_knows_standbys():
            for pool_name in wanting:
                await self._start(pool_name)
        return True

    async def stop_all(self) -> int:
        """Begin the stop of all standbys, because the installation shuts down; returns the rest."""
        left = 0
        for row in await list_warm_pools(self.database, backoff_s=_BACKOFF_S):
            left += row.fresh + row.outdated + row.stopping
            await self._stop(row.pool_name, row.fresh + row.outdated)
        return left

    async def _every_replica_knows_standbys(self) -> bool:
        return await find_replica_without_standbys(self.database, alive_s=ALIVE_S) is None

    async def _start(self, pool_name: PoolName) -> None:
        """Start the missing standbys; under the pool's lock, the figures are current."""

        async def work(transaction: Transaction) -> None:
            lock = lock_pool.statement(pool_name=pool_name)
            figures = list_warm_pools.statement(backoff_s=_BACKOFF_S)
            await transaction.run([lock, figures])
            for row in figures.result:
                if row.pool_name == pool_name and (starts := changes_of(warm_pool_of(row)).starts):
                    add = add_slots.statement(pool_name=pool_name, slots=starts - row.free)
                    start = start_standbys.statement(
                        pool_name=pool_name, standbys=starts, backoff_s=_BACKOFF_S
                    )
                    await transaction.run([add, start] if starts > row.free else [start])

        await self.database.transact(work)
        self.wakeups.slots_due()

    async def _stop(self, pool_name: PoolName, surplus: int) -> None:
        if await stop_standbys(self.database, pool_name=pool_name, surplus=surplus):
            self.wakeups.slots_due()


def changes_of(pool: WarmPool) -> StandbyChanges:
    return standby_changes(pool, hot_target(pool))


def warm_pool_of(row: WarmPoolRow) -> WarmPool:
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    booked = [
        BookedStart(ready_from=ready_from, starts_at=starts_at)
        for ready_from, starts_at in zip(
            values.pop("ready_from"), values.pop("starts_at"), strict=True
        )
    ]
    return WarmPool(**{**values, "warm": Warm.from_json(row.warm), "booked": booked})
