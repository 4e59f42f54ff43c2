"""Operators' commands on rollouts: start, promote, roll back, list."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from botpool.domain import reasons
from botpool.domain.audit import current_actor
from botpool.domain.errors import NotFound
from botpool.domain.ids import PoolName
from botpool.domain.pools import Pool
from botpool.domain.rollouts.comparison import Comparison
from botpool.domain.rollouts.errors import NoRollout, RolloutActive, SameRevision
from botpool.domain.rollouts.records import Revision, Rollout, RolloutRequest, RolloutState
from botpool.engine.audit import audit_row
from botpool.engine.rollouts.controller import RolloutController
from botpool.engine.rollouts.rollout_ending import ACTIVE, RolloutEnding
from botpool.engine.service import Service
from botpool.store.database import Transaction
from botpool.store.pools import list_pools, lock_pool
from botpool.store.rollouts import RolloutRow, insert_rollout, list_rollouts

_MAX_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutCommands(Service):
    """Starts and ends rollouts for operators."""

    ending: RolloutEnding
    controller: RolloutController

    async def start(
        self, pool_name: PoolName, request: RolloutRequest, *, correlation_id: str | None = None
    ) -> Rollout:
        """Start a rollout. Raises RolloutActive while the pool has one.

        The pool's lock and a unique index keep two rollouts from starting at once.
        """

        async def work(transaction: Transaction) -> None:
            lock = lock_pool.statement(pool_name=pool_name)
            pools = list_pools.statement(pool_name=pool_name)
            former = list_rollouts.statement(pool_name=pool_name, limit=1)
            await transaction.run([lock, pools, former])
            if not pools.result:
                raise NotFound("pool", pool_name)
            _check_start(pools.result[0], former.result, request)
            start = insert_rollout.statement(
                pool_name=pool_name,
                **asdict(request),
                started_by=_actor_name(),
                correlation_id=correlation_id,
            )
            row = audit_row("rollout.start", f"pool {pool_name}", after=asdict(request))
            await transaction.run([start, *row])

        await self.database.transact(work)
        self.controller.wake.set()
        return (await self.list(pool_name))[0]

    async def promote(self, pool_name: PoolName, *, correlation_id: str | None = None) -> Rollout:
        """Give the pool the new revision now, without regard to the comparison."""
        newest = await self._newest(pool_name, "promote", ACTIVE)
        return await self._end(newest, RolloutState.PROMOTED, ACTIVE, correlation_id)

    async def roll_back(self, pool_name: PoolName, *, correlation_id: str | None = None) -> Rollout:
        """Keep the old revision, or return to it after the last promotion."""
        states = (*ACTIVE, RolloutState.PROMOTED)
        newest = await self._newest(pool_name, "roll back", states)
        return await self._end(newest, RolloutState.ROLLED_BACK, states, correlation_id)

    async def list(self, pool_name: PoolName) -> Sequence[Rollout]:
        """Return the rollouts of a pool, newest first."""
        found = await list_rollouts(self.database, pool_name=pool_name, limit=_MAX_LISTED)
        if not found and not await list_pools(self.database, pool_name=pool_name):
            raise NotFound("pool", pool_name)
        return [rollout_of(row) for row in found]

    async def _newest(
        self, pool_name: PoolName, action: str, states: Sequence[RolloutState]
    ) -> Rollout:
        found = await self.list(pool_name)
        if not found or found[0].state not in states:
            raise NoRollout(pool_name, action)
        return found[0]

    async def _end(
        self,
        rollout: Rollout,
        state: RolloutState,
        from_states: Sequence[RolloutState],
        correlation_id: str | None,
    ) -> Rollout:
        is_promotion = state is RolloutState.PROMOTED
        say = reasons.promoted_by if is_promotion else reasons.rolled_back_by
        is_done = await self.ending.end(
            rollout.id,
            rollout.pool_name,
            state,
            reason=say(_actor_name()),
            from_states=from_states,
            correlation_id=correlation_id,
        )
        if not is_done:
            raise NoRollout(rollout.pool_name, "promote" if is_promotion else "roll back")
        return (await self.list(rollout.pool_name))[0]


def rollout_of(row: RolloutRow) -> Rollout:
    """Return a rollout as the API shows it."""
    return Rollout(
        id=row.id,
        pool_name=row.pool_name,
        old=Revision(image=row.old_image, cpus=row.old_cpus, memory_mb=row.old_memory_mb),
        new=Revision(image=row.new_image, cpus=row.new_cpus, memory_mb=row.new_memory_mb),
        share=row.share,
        bake_s=row.bake_s,
        tolerance=row.tolerance,
        state=row.state,
        reason=row.reason,
        waits_for=row.waits_for,
        started_by=row.started_by,
        started_at=row.started_at,
        canary_at=row.canary_at,
        ended_at=row.ended_at,
        comparison=Comparison.from_json(row.comparison) if row.comparison else None,
    )


def _check_start(pool: Pool, former: Sequence[RolloutRow], request: RolloutRequest) -> None:
    if former and former[0].ended_at is None:
        raise RolloutActive(pool.pool_name, former[0].new_image)
    is_same_image = pool.image == request.image or pool.image.startswith(f"{request.image}@")
    keeps_limits = request.cpus is None and request.memory_mb is None
    if is_same_image and keeps_limits:
        raise SameRevision(pool.pool_name, pool.image)


def _actor_name() -> str:
    actor = current_actor.get()
    return actor.name if actor is not None else "cli"
