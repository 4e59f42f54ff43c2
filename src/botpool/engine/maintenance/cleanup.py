"""Cleanup: deletes stray containers and rows that are past their retention.

A stray is a container with our ownership label and no slot. It may belong to a slot whose container
is being created, or to a database that was restored. So the cleanup deletes a stray only after ten
minutes of lists that succeeded, and only if there are few strays: many at once are more likely our
mistake and wait for an operator. A list that fails is no evidence. Cleanups may run concurrently.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, dataclass

import structlog

from botpool.backends.protocol import Backend, RunKeeper, run_keeper
from botpool.domain.errors import BackendError, CallSuperseded
from botpool.domain.ids import DeploymentId
from botpool.domain.slots import Stray
from botpool.engine.audit import announce
from botpool.engine.lifecycle.queue_poller import QueuePoller
from botpool.engine.maintenance.recovery import Recovery
from botpool.engine.maintenance.restored_history import renumber_restored_history
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed, timed_pages
from botpool.engine.service import Service
from botpool.store import maintenance
from botpool.store.audit import prune_audit
from botpool.store.database import Transaction
from botpool.store.deployments import list_known_deployments
from botpool.store.rollouts import prune_rollouts
from botpool.store.token_buckets import prune_token_buckets
from botpool.store.webhooks import prune_webhook_deliveries

_log = structlog.get_logger()
_MIN_STRAYS_TO_REFUSE = 2
_BATCH = 500
_MAX_BATCHES = 20
"""Per table and run; the next run continues."""
_MAX_DELIVERIES = 10_000
"""Finished deliveries that a webhook keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """The counts of one cleanup."""

    released: int = 0
    expired: int = 0
    deleted_containers: int = 0
    pruned_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup(Service):
    """Deletes stray containers and expired rows."""

    queue_poller: QueuePoller
    recovery: Recovery

    async def run(self) -> None:
        """Run the scheduled cleanup: recovery and the queue poll have their own loops."""
        await self._delete_strays(all_strays=False)
        await self._prune()

    async def clean(self, *, all_strays: bool) -> CleanupResult:
        """Run a full cleanup for an operator; `all_strays` also deletes many strays at once."""
        action = "maintenance.cleanup.force" if all_strays else "maintenance.cleanup"
        await announce(self.database, action, "containers")
        recovered = await self.recovery.recover()
        result = CleanupResult(
            released=recovered.recovered + recovered.requeued,
            expired=await self.queue_poller.expire(),
            deleted_containers=await self._delete_strays(all_strays=all_strays),
            pruned_rows=await self._prune(),
        )
        if result != CleanupResult():
            _log.info("cleanup.pass", **asdict(result))
        return result

    async def _delete_strays(self, *, all_strays: bool) -> int:
        deleted = 0
        for name, backend in sorted(self.backends.items()):
            try:
                if (keeper := run_keeper(backend)) is not None:
                    deleted += await self._discard_runs(name, keeper)
                deleted += await self._delete_strays_of(backend, all_strays=all_strays)
            except BackendError as error:
                event_log.backend_unavailable("cleanup.unavailable", error, backend=name)
        return deleted

    async def _discard_runs(self, name: str, backend: RunKeeper) -> int:
        """Remove the runs that a crash left: released ones, and prepared ones without a start."""

        async def read_known() -> Collection[DeploymentId]:
            return frozenset(await list_known_deployments(self.database, backend=name))

        return await timed_pages(
            lambda timeout_s: backend.discard_unknown(
                read_known, min_age_s=self.policy.stray_after_s, timeout_s=timeout_s
            ),
            self.policy.call_timeout_s,
        )

    async def _delete_strays_of(self, backend: Backend, *, all_strays: bool) -> int:
        owned = await timed_pages(
            lambda timeout_s: backend.list_owned(timeout_s=timeout_s), self.policy.call_timeout_s
        )
        strays = await maintenance.record_strays(
            self.database,
            backend=backend.name,
            container_ids=[container.container_id for container in owned],
            names=[container.name for container in owned],
            age_s=self.policy.stray_after_s,
        )
        limit = max(_MIN_STRAYS_TO_REFUSE, int(len(owned) * self.policy.stray_share))
        if len(strays) > limit and not all_strays:
            _log.error(
                "cleanup.many_strays",
                backend=backend.name,
                strays=len(strays),
                owned=len(owned),
                advice="check that no installation uses these containers, then clean up with force",
            )
            return 0
        return sum([await self._delete(backend, stray) for stray in strays])

    async def _delete(self, backend: Backend, stray: Stray) -> bool:
        """Delete a stray, unless a slot has adopted it and a bot was started in it meanwhile."""
        try:
            await timed(
                lambda timeout_s: backend.delete(
                    stray.container_id,
                    stop_through=stray.newest_assignment_id,
                    timeout_s=timeout_s,
                ),
                self.policy.call_timeout_s,
            )
        except CallSuperseded as error:
            event_log.backend_unavailable("cleanup.superseded", error, backend=backend.name)
            return False
        _log.warning("cleanup.stray_deleted", backend=backend.name, container=stray.container_id)
        return True

    async def _prune(self) -> int:
        # History first gets one order of transaction ids, by which the oldest rows are found.
        await renumber_restored_history(self.database)
        return (
            await _in_batches(self._prune_history)
            + await _in_batches(self._prune_audit)
            + await _in_batches(self._prune_webhook_deliveries)
            + await _in_batches(self._prune_rollouts)
            + await _in_batches(self._prune_idempotency_keys)
            + await _in_batches(self._prune_token_buckets)
            + await _in_batches(lambda: self.database.transact(self._prune_bots))
        )

    async def _prune_history(self) -> int:
        days = self.policy.history_days
        return len(await maintenance.prune_history(self.database, days=days, limit=_BATCH))

    async def _prune_audit(self) -> int:
        days = self.policy.audit_days
        return len(await prune_audit(self.database, days=days, limit=_BATCH))

    async def _prune_webhook_deliveries(self) -> int:
        days = self.policy.webhook_days
        pruned = await prune_webhook_deliveries(
            self.database, days=days, max_kept=_MAX_DELIVERIES, limit=_BATCH
        )
        return len(pruned)

    async def _prune_rollouts(self) -> int:
        days = self.policy.history_days
        return len(await prune_rollouts(self.database, days=days, limit=_BATCH))

    async def _prune_idempotency_keys(self) -> int:
        days = self.policy.idempotency_days
        return len(await maintenance.prune_idempotency_keys(self.database, days=days, limit=_BATCH))

    async def _prune_token_buckets(self) -> int:
        return len(await prune_token_buckets(self.database, limit=_BATCH))

    async def _prune_bots(self, transaction: Transaction) -> int:
        """Delete old bots after their assignments, which refer to them."""
        pruned = maintenance.prune_bots.statement(days=self.policy.bots_days, limit=_BATCH)
        await transaction.run([pruned])
        if pruned.result:
            await transaction.run([maintenance.delete_bots.statement(bot_ids=pruned.result)])
        return len(pruned.result)


async def _in_batches(prune: Callable[[], Awaitable[int]]) -> int:
    """Call `prune` until it deletes less than a batch, and return the sum."""
    pruned = 0
    for _ in range(_MAX_BATCHES):
        deleted = await prune()
        pruned += deleted
        if deleted < _BATCH:
            break
    return pruned
