"""Pools and slots in an operator's hand: settings written, slots cordoned, removed, drained.

Whatever makes room, a raised maximum, an uncordoned slot, an opened pool, is followed by a match.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from botpool.domain.errors import NotFound
from botpool.domain.ids import PoolName, SlotId
from botpool.domain.records import PoolSpec
from botpool.domain.states import SlotStatus
from botpool.engine.admission.matcher import Matcher, lock, match_calls
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log
from botpool.store.database import Transaction
from botpool.store.rows import to_slot_change


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCommands:
    transitions: Transitions
    matcher: Matcher
    backends: Sequence[str]

    async def configure(self, specs: Sequence[PoolSpec]) -> None:
        """Write the pools' settings. The match that follows grows or trims the pool to them."""
        await self.transitions.database.fetch("register_backends", {"backends": self.backends})
        for spec in sorted(specs, key=lambda spec: spec.pool_name):
            pool_name = spec.pool_name
            self.matcher.matched(
                await self.transitions.database.atomically(
                    lock(pool_name), ("upsert_pool", asdict(spec)), *match_calls(pool_name)
                )
            )

    async def cordon(
        self, slot_id: SlotId, *, cordoned: bool, reason: str, correlation_id: str | None = None
    ) -> None:
        """Close a slot to further bots, or open it again."""
        pool_name = await self._pool_name_of(slot_id)
        await self.transitions.database.fetch(
            "cordon_slots",
            {
                "slot_id": slot_id,
                "pool_name": None,
                "cordoned": cordoned,
                "reason": reason,
                "correlation_id": correlation_id,
            },
        )
        if not cordoned:
            await self.matcher.match_pool(pool_name)

    async def drain(
        self, pool_name: PoolName, *, drained: bool, reason: str, correlation_id: str | None = None
    ) -> None:
        """Cordon all slots of a pool and admit nobody new, or end that."""

        async def work(transaction: Transaction) -> None:
            told = {"pool_name": pool_name, "reason": reason, "correlation_id": correlation_id}
            _, found, _ = await transaction.send(
                lock(pool_name),
                ("drain_pool", {"drained": drained, **told}),
                ("cordon_slots", {"slot_id": None, "cordoned": drained, **told}),
            )
            if not found:
                raise NotFound("pool", pool_name)

        await self.transitions.database.transact(work)
        if not drained:
            await self.matcher.match_pool(pool_name)

    async def remove(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> bool:
        """Delete a slot that has no bot. False: it has one, and stays."""
        await self._pool_name_of(slot_id)
        row = await self.transitions.database.fetch_one(
            "mark_slot_deleting",
            {
                "slot_id": slot_id,
                "version": None,
                "reason": reason,
                "correlation_id": correlation_id,
                "holds_lease": False,
            },
        )
        if row is None:
            return False
        event_log.slot_transition(
            to_slot_change(row | {"correlation_id": correlation_id}),
            old=SlotStatus(row["status"]),
            new=SlotStatus.DELETING,
            reason=reason,
        )
        self.transitions.wakeups.slots_due()
        return True

    async def _pool_name_of(self, slot_id: SlotId) -> PoolName:
        rows = await self.transitions.database.fetch(
            "list_slots", {"slot_id": slot_id, "pool_name": None, "status": None}
        )
        if not rows:
            raise NotFound("slot", slot_id)
        return PoolName(rows[0]["pool_name"])
