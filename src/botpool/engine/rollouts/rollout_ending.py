"""Ends a rollout: the pool gets the new revision, or keeps the old one.

One transaction changes the rollout, the pool and the history, and begins the stop of the rollout's
runs without a bot. Bots are not touched: a running or deploying bot keeps its revision.

- a crash before the commit: nothing happened, and the next step decides again;
- a crash after it: the slots are due, and any replica stops their containers;
- twice, or by an operator and a replica at once: the state of the row decides, and the second
  transaction changes nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from botpool.domain.ids import PoolName
from botpool.domain.rollouts.comparison import Comparison
from botpool.domain.rollouts.records import RolloutState
from botpool.engine.audit import audit_row
from botpool.engine.service import Service
from botpool.store.database import Transaction
from botpool.store.pools import lock_pool
from botpool.store.rollouts import end_rollout, stop_rollout_runs

_log = structlog.get_logger("botpool.pool")
ACTIVE: Sequence[RolloutState] = (RolloutState.PULLING, RolloutState.CANARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEnding(Service):
    """Promotes rollouts and rolls them back."""

    async def end(
        self,
        rollout_id: int,
        pool_name: PoolName,
        state: RolloutState,
        *,
        reason: str,
        from_states: Sequence[RolloutState] = ACTIVE,
        comparison: Comparison | None = None,
        correlation_id: str | None = None,
    ) -> bool:
        """End a rollout; False if it is not in one of `from_states` any more."""
        lock = lock_pool.statement(pool_name=pool_name)
        ended = end_rollout.statement(
            rollout_id=rollout_id,
            state=state,
            from_states=[str(each) for each in from_states],
            reason=reason,
            comparison=json.dumps(comparison.to_json()) if comparison else None,
            correlation_id=correlation_id,
        )
        action = "rollout.promote" if state is RolloutState.PROMOTED else "rollout.rollback"

        async def work(transaction: Transaction) -> bool:
            await transaction.run([lock, ended])
            if ended.result is None:
                return False
            stop = stop_rollout_runs.statement(
                rollout_id=rollout_id, standbys=state is RolloutState.ROLLED_BACK
            )
            after = {"rolloutId": rollout_id, "reason": reason}
            await transaction.run([stop, *audit_row(action, f"pool {pool_name}", after=after)])
            return True

        if not await self.database.transact(work):
            return False
        level = _log.info if state is RolloutState.PROMOTED else _log.warning
        level(f"rollout.{state}", pool=pool_name, rollout=rollout_id, reason=reason)
        self.metrics.rollout_ended(pool_name, state)
        self.wakeups.wake_reconcilers()
        return True
