"""Operators' commands on pools: configure, cordon, drain, and delete single slots.

A command that creates room (a raised maximum, an uncordoned slot, a pool that is no longer drained)
ends with a match.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from botpool.domain.errors import NotFound
from botpool.domain.ids import PoolName, SlotId
from botpool.domain.pools import PoolSpec
from botpool.engine.admission.matcher import Matcher
from botpool.engine.audit import announce, audit_row
from botpool.engine.lifecycle.pacing import PacingControl
from botpool.engine.lifecycle.slot_deletion import SlotDeletion
from botpool.engine.service import Service
from botpool.store.database import Transaction
from botpool.store.pacing import upsert_egress
from botpool.store.pools import drain_pool, list_pools, lock_pool, register_backends, upsert_pool
from botpool.store.query import Statement
from botpool.store.slots import cordon_slots, find_slot


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCommands(Service):
    """Changes pools, and slots without regard to their bots."""

    matcher: Matcher
    deletion: SlotDeletion
    pacing: PacingControl
    configured: set[PoolName] = field(default_factory=set)
    """The pools of the settings. The database keeps those that the settings no longer contain."""

    async def configure(self, specs: Sequence[PoolSpec]) -> None:
        """Write the settings of pools; the match that follows grows or shrinks each pool."""
        await register_backends(self.database, backends=sorted(self.backends))
        self.pacing.configure(specs)
        self.configured.clear()
        self.configured.update(spec.pool_name for spec in specs)
        for spec in sorted(specs, key=lambda spec: spec.pool_name):
            match = self.matcher.prepare_match(spec.pool_name)
            await self.database.commit(
                [
                    lock_pool.statement(pool_name=spec.pool_name),
                    *_settings_statements(spec),
                    *match.statements,
                ]
            )
            self.matcher.report(match)

    async def cordon(
        self, slot_id: SlotId, *, cordoned: bool, reason: str, correlation_id: str | None = None
    ) -> None:
        """Cordon or uncordon a slot."""
        pool_name = await self._pool_of(slot_id)
        action = "slot.cordon" if cordoned else "slot.uncordon"

        async def work(transaction: Transaction) -> None:
            changed = cordon_slots.statement(
                slot_id=slot_id, cordoned=cordoned, reason=reason, correlation_id=correlation_id
            )
            await transaction.run([changed])
            before = {"cordoned": cordoned is not bool(changed.result)}
            after = {"cordoned": cordoned}
            await transaction.run(audit_row(action, f"slot {slot_id}", before=before, after=after))

        await self.database.transact(work)
        if not cordoned:
            await self.matcher.match_pool(pool_name)

    async def drain(
        self, pool_name: PoolName, *, drained: bool, reason: str, correlation_id: str | None = None
    ) -> None:
        """Cordon all slots of a pool and admit no new bots, or end that."""

        async def work(transaction: Transaction) -> None:
            lock = lock_pool.statement(pool_name=pool_name)
            drain = drain_pool.statement(
                pool_name=pool_name,
                drained=drained,
                reason=reason,
                correlation_id=correlation_id,
            )
            cordon = cordon_slots.statement(
                pool_name=pool_name,
                cordoned=drained,
                reason=reason,
                correlation_id=correlation_id,
            )
            former = list_pools.statement(pool_name=pool_name)
            await transaction.run([lock, former, drain, cordon])
            if drain.result is None:
                raise NotFound("pool", pool_name)
            before = {"drained": former.result[0].drained_at is not None}
            after = {"drained": drained, "changedSlots": len(cordon.result)}
            action = "pool.drain" if drained else "pool.undrain"
            await transaction.run(
                audit_row(action, f"pool {pool_name}", before=before, after=after)
            )

        await self.database.transact(work)
        if not drained:
            await self.matcher.match_pool(pool_name)

    async def remove(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> bool:
        """Delete a slot without a bot; False if it has one."""
        await self._pool_of(slot_id)
        await announce(self.database, "slot.delete", f"slot {slot_id}")
        return await self.deletion.start(
            slot_id, version=None, reason=reason, correlation_id=correlation_id
        )

    async def _pool_of(self, slot_id: SlotId) -> PoolName:
        slot = await find_slot(self.database, slot_id=slot_id)
        if slot is None:
            raise NotFound("slot", slot_id)
        return slot.pool_name


def _settings_statements(spec: PoolSpec) -> list[Statement[Any]]:
    """Return the statements that write a pool's settings and those of its egress."""
    values = asdict(spec)
    pacing = values.pop("pacing")
    egress = [upsert_egress.statement(**pacing)] if pacing else []
    pool = upsert_pool.statement(
        **values,
        egress=pacing["egress"] if pacing else None,
        handover_timeout_s=spec.warm.handover_timeout_s,
    )
    return [*egress, pool]
