"""Pools and slots in an operator's hand: settings written, slots cordoned, removed, drained.

Whatever makes room, a raised maximum, an uncordoned slot, an opened pool, is followed by a match.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from botpool.domain.errors import NotFound
from botpool.domain.ids import Platform, SlotId
from botpool.domain.records import PoolSpec
from botpool.domain.states import SlotStatus
from botpool.engine.admission.matcher import Matcher, lock, match_calls
from botpool.engine.lifecycle.transitions import Moves
from botpool.engine.observability import event_log
from botpool.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    moves: Moves
    matcher: Matcher
    backends: Sequence[str]

    async def configure(self, specs: Sequence[PoolSpec]) -> None:
        """Write the pools' settings. The match that follows grows or trims the pool to them."""
        await self.moves.database.fetch("register_backends", {"backends": self.backends})
        for spec in sorted(specs, key=lambda spec: spec.platform):
            platform = spec.platform
            self.matcher.matched(
                await self.moves.database.atomically(
                    lock(platform), ("upsert_pool", asdict(spec)), *match_calls(platform)
                )
            )

    async def cordon(
        self, slot_id: SlotId, *, cordoned: bool, reason: str, correlation_id: str | None = None
    ) -> None:
        """Close a slot to further bots, or open it again."""
        platform = await self._platform_of(slot_id)
        await self.moves.database.fetch(
            "cordon_slots",
            {
                "slot_id": slot_id,
                "platform": None,
                "cordoned": cordoned,
                "reason": reason,
                "correlation_id": correlation_id,
            },
        )
        if not cordoned:
            await self.matcher.match_pool(platform)

    async def drain(
        self, platform: Platform, *, drained: bool, reason: str, correlation_id: str | None = None
    ) -> None:
        """Cordon all slots of a pool and admit nobody new, or end that."""

        async def work(transaction: Transaction) -> None:
            told = {"platform": platform, "reason": reason, "correlation_id": correlation_id}
            _, found, _ = await transaction.send(
                lock(platform),
                ("drain_pool", {"drained": drained, **told}),
                ("cordon_slots", {"slot_id": None, "cordoned": drained, **told}),
            )
            if not found:
                raise NotFound("pool", platform)

        await self.moves.database.transact(work)
        if not drained:
            await self.matcher.match_pool(platform)

    async def remove(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> bool:
        """Delete a slot that has no bot. False: it has one, and stays."""
        await self._platform_of(slot_id)
        row = await self.moves.database.fetch_one(
            "condemn_slot",
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
        event_log.slot_moved(
            row | {"correlation_id": correlation_id},
            old=SlotStatus(row["status"]),
            new=SlotStatus.DELETING,
            reason=reason,
        )
        self.moves.wakeups.slots_due()
        return True

    async def _platform_of(self, slot_id: SlotId) -> Platform:
        rows = await self.moves.database.fetch(
            "list_slots", {"slot_id": slot_id, "platform": None, "status": None}
        )
        if not rows:
            raise NotFound("slot", slot_id)
        return Platform(rows[0]["platform"])
