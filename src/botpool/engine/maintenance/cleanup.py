"""The cleanup: containers that belong to no slot, and rows that have been kept long enough.

A container with our mark and no slot may be one that is just being made, or one of a database that
was restored. So it goes only when it was a stray in lists that succeeded for ten minutes, when its
name is not that of a slot still being made, and when strays are few: many of them at once are more
likely our mistake than the backend's, and wait for an operator's word. Lists that fail say
nothing. Done twice, or dying in the middle, it begins again where it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.errors import BackendError
from botpool.domain.ids import ContainerId
from botpool.engine.lifecycle.queue_poller import QueuePoller
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.maintenance.recovery import Recovery
from botpool.engine.maintenance.restored_history import renumber_restored_history
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed
from botpool.store.database import Transaction

_log = structlog.get_logger()
_FEW = 2
_BATCH = 500
_BATCHES = 20
"""In one pass: what is left waits for the next, and nothing else for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    released: int = 0
    expired: int = 0
    deleted_containers: int = 0
    pruned_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    transitions: Transitions
    queue_poller: QueuePoller
    recovery: Recovery
    backends: Mapping[str, Backend]

    async def run(self) -> None:
        """What no other loop does: orphans and the queue's deadlines have loops of their own."""
        await self._delete_strays(all_strays=False)
        await self._prune()

    async def clean(self, *, all_strays: bool) -> CleanupResult:
        """`all_strays`: an operator has said that many at once are right."""
        cleaned = CleanupResult(
            released=(await self.recovery.recover()).recovered,
            expired=await self.queue_poller.expire(),
            deleted_containers=await self._delete_strays(all_strays=all_strays),
            pruned_rows=await self._prune(),
        )
        if cleaned != CleanupResult():
            _log.info(
                "cleanup.pass",
                released=cleaned.released,
                expired=cleaned.expired,
                deleted_containers=cleaned.deleted_containers,
                pruned_rows=cleaned.pruned_rows,
            )
        return cleaned

    async def _delete_strays(self, *, all_strays: bool) -> int:
        deleted = 0
        for name, backend in sorted(self.backends.items()):
            try:
                deleted += await self._delete_strays_of(backend, all_strays=all_strays)
            except BackendError as error:
                event_log.unavailable("cleanup.unavailable", error, backend=name)
        return deleted

    async def _delete_strays_of(self, backend: Backend, *, all_strays: bool) -> int:
        policy = self.transitions.policy
        owned = await timed(
            lambda timeout_s: backend.list_owned(timeout_s=timeout_s), policy.call_timeout_s
        )
        rows = await self.transitions.database.fetch(
            "record_strays",
            {
                "backend": backend.name,
                "container_ids": [found.container_id for found in owned],
                "names": [found.name for found in owned],
                "age_s": policy.stray_after_s,
            },
        )
        strays = [ContainerId(row["container_id"]) for row in rows]
        most = max(_FEW, int(len(owned) * policy.stray_share))
        if len(strays) > most and not all_strays:
            _log.error(
                "cleanup.many_strays",
                backend=backend.name,
                strays=len(strays),
                owned=len(owned),
                advice="see that they are nobody's, then clean up with force",
            )
            return 0
        for container_id in strays:
            await self._delete(backend, container_id)
        return len(strays)

    async def _delete(self, backend: Backend, container_id: ContainerId) -> None:
        await timed(
            lambda timeout_s: backend.delete(container_id, timeout_s=timeout_s),
            self.transitions.policy.call_timeout_s,
        )
        _log.warning("cleanup.stray_deleted", backend=backend.name, container=container_id)

    async def _prune(self) -> int:
        policy = self.transitions.policy
        pruned = 0
        await renumber_restored_history(
            self.transitions.database
        )  # What is old is told by the order of history.
        for statement, days in (
            ("prune_history", policy.history_days),
            ("prune_idempotency_keys", policy.idempotency_days),
        ):
            for _ in range(_BATCHES):
                rows = await self.transitions.database.fetch(
                    statement, {"days": days, "limit": _BATCH}
                )
                pruned += len(rows)
                if len(rows) < _BATCH:
                    break
        for _ in range(_BATCHES):
            gone = await self.transitions.database.transact(self._prune_bots)
            pruned += gone
            if gone < _BATCH:
                break
        return pruned

    async def _prune_bots(self, transaction: Transaction) -> int:
        """Assignments first, in a statement of their own: each names a bot that is there."""
        ((*rows,),) = await transaction.send(
            ("prune_bots", {"days": self.transitions.policy.bots_days, "limit": _BATCH})
        )
        bot_ids = [row["id"] for row in rows]
        if bot_ids:
            await transaction.send(("delete_bots", {"bot_ids": bot_ids}))
        return len(bot_ids)
