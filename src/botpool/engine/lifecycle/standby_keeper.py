"""Keeps as many standbys and prepared idle slots in each pool as its warm floors ask for.

A standby starts in an idle slot, which stays assignable meanwhile; so does a slot that gets its
container for the floor of idle slots. Starts, preparations and removals happen under the pool's
lock, so that two replicas do not do twice as many. A stop or a removal is committed before it is
sent; the reconciler sends it, and makes a slot assignable after the confirmed stop. After a crash
at any point, the next round of any replica continues from the rows.

The refill has a rate, which claims do not change. While bots wait for a slot, it takes none.

No standby starts while a replica is live whose version does not know standbys: it would stop them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from botpool.domain import reasons
from botpool.domain.ids import PoolName
from botpool.domain.slots import SlotChange
from botpool.domain.states import SlotStatus
from botpool.domain.warm import BookedStart, Warm, WarmPool
from botpool.domain.warm_changes import WarmChanges, refilled_until, warm_changes
from botpool.domain.warm_floors import WarmFloors, warm_floors
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.database import Transaction
from botpool.store.liveness import find_replica_without_standbys
from botpool.store.pools import lock_pool
from botpool.store.rollouts import stop_rollout_runs
from botpool.store.standbys import (
    WarmPoolRow,
    add_slots,
    close_polls,
    list_warm_pools,
    prepare_slots,
    remove_idle_slots,
    start_standbys,
    stop_standbys,
    use_refill,
)

INTERVAL_S = 1.0
ALIVE_S = 30.0
"""A replica counts as dead so long after its last record of liveness."""
LOST_POLL_S = 30.0
"""How long a standby may be without a poll before Botpool resets its slot."""
BACKOFF_S = 10.0
"""How long a slot waits after a failed start of a standby; each reset doubles the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyKeeper(Service):
    """Starts, replaces and stops standbys; prepares and removes idle slots."""

    async def keep(self) -> bool:
        """Bring each pool closer to its warm floors; False if no pool has any."""
        pools = await self.read_pools()
        if not pools:
            return False
        await close_polls(self.database, owner=None, alive_s=ALIVE_S, lost_s=LOST_POLL_S)
        for pool in pools:
            surplus = warm_changes(pool).surplus
            if surplus or pool.forced:
                await self._stop(pool.pool_name, surplus)
        wanting = [pool.pool_name for pool in pools if _refills_or_removes(warm_changes(pool))]
        if wanting and await self._every_replica_knows_standbys():
            for pool_name in wanting:
                await self._refill(pool_name)
        return True

    async def read_pools(self) -> list[WarmPool]:
        """Read the pools that have warm floors or standbys, with their figures."""
        rows = await list_warm_pools(
            self.database, backoff_s=BACKOFF_S, image_known_s=self.policy.image_known_s
        )
        return [warm_pool_of(row) for row in rows]

    async def floors(self) -> Mapping[PoolName, WarmFloors]:
        """Return the warm floors of the pools that have any: target, actual number and reason."""
        return {pool.pool_name: warm_floors(pool) for pool in await self.read_pools()}

    async def stop_all(self) -> int:
        """Begin the stop of all standbys and pulls for a shutdown; returns the rest."""
        left = 0
        await stop_rollout_runs(self.database, rollout_id=None, standbys=False)
        for pool in await self.read_pools():
            left += pool.fresh + pool.outdated + pool.stopping
            await self._stop(pool.pool_name, pool.fresh + pool.outdated)
        return left

    async def _every_replica_knows_standbys(self) -> bool:
        return await find_replica_without_standbys(self.database, alive_s=ALIVE_S) is None

    async def _refill(self, pool_name: PoolName) -> None:
        """Start the missing standbys, prepare the missing slots, and remove surplus ones."""
        removed = await self.database.transact(
            lambda transaction: self._refill_in(transaction, pool_name)
        )
        for slot in removed:
            event_log.slot_transition(
                slot, old=SlotStatus.IDLE, new=SlotStatus.DELETING, reason=reasons.UNUSED
            )
        self.wakeups.wake_reconcilers()

    async def _refill_in(
        self, transaction: Transaction, pool_name: PoolName
    ) -> Sequence[SlotChange]:
        """Refill a pool; under the pool's lock, the figures are current."""
        lock = lock_pool.statement(pool_name=pool_name)
        figures = list_warm_pools.statement(
            backoff_s=BACKOFF_S, image_known_s=self.policy.image_known_s
        )
        await transaction.run([lock, figures])
        removed: list[SlotChange] = []
        for pool in [warm_pool_of(row) for row in figures.result if row.pool_name == pool_name]:
            changes = warm_changes(pool)
            if changes.refills:
                await self._grow_and_start(transaction, pool, changes)
            if changes.removals:
                remove = remove_idle_slots.statement(pool_name=pool_name, slots=changes.removals)
                await transaction.run([remove])
                removed += remove.result
        return removed

    async def _grow_and_start(
        self, transaction: Transaction, pool: WarmPool, changes: WarmChanges
    ) -> None:
        name = pool.pool_name
        new = max(0, changes.starts - pool.free) + max(0, changes.prepares - pool.unprepared)
        until = refilled_until(
            pool.warm.refill_per_minute, pool.refilled_until, pool.now, changes.refills
        )
        await transaction.run(
            [
                use_refill.statement(pool_name=name, until=until),
                add_slots.statement(pool_name=name, slots=new),
                start_standbys.statement(
                    pool_name=name, standbys=changes.starts, backoff_s=BACKOFF_S
                ),
                prepare_slots.statement(
                    pool_name=name, slots=changes.prepares, backoff_s=BACKOFF_S
                ),
            ]
        )

    async def _stop(self, pool_name: PoolName, surplus: int) -> None:
        if await stop_standbys(self.database, pool_name=pool_name, surplus=surplus):
            self.wakeups.wake_reconcilers()


def _refills_or_removes(changes: WarmChanges) -> bool:
    return bool(changes.refills or changes.removals)


def warm_pool_of(row: WarmPoolRow) -> WarmPool:
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    booked = [
        BookedStart(ready_from=ready_from, starts_at=starts_at)
        for ready_from, starts_at in zip(
            values.pop("ready_from"), values.pop("starts_at"), strict=True
        )
    ]
    return WarmPool(**{**values, "warm": Warm.from_json(row.warm), "booked": booked})
