"""Moves slots and queued bots from Meeboter's pool to Botpool.

Each slot and each bot moves on its own, in steps that a repeated import continues after a crash:

- A slot: Meeboter loses it (its status there becomes `botpool`); its application gets the name and
  tag of a Botpool slot; Botpool inserts the slot in `error`, and the reconciler stops the
  application before the slot takes a bot. After the first step, neither system assigns the slot.
- A duplicate: Meeboter loses it; its application is deleted; its row is deleted.
- A queued bot: one transaction moves it from Meeboter's queue to a table beside it; Botpool creates
  the bot under an idempotency key; the table records Botpool's bot. No moment has the bot in both
  queues.

Live bots of Meeboter are left alone, with their slots.
"""

import hashlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.backends.protocol import ContainerAdopter, ForeignContainer
from botpool.domain import reasons
from botpool.domain.bots import BotRequest, IdempotencyKey
from botpool.domain.callers import DEFAULT_TENANT, DEFAULT_TENANT_ID, Caller
from botpool.domain.errors import BotpoolError, ImportRefused
from botpool.domain.ids import ContainerId, PoolName
from botpool.domain.meeboter import (
    CHANGES,
    DUPLICATE,
    MOVED,
    BotPlan,
    ImportStep,
    MeeboterBot,
    SlotPlan,
    plan_bots,
    plan_slots,
    pool_and_number,
)
from botpool.engine.admission.admission import Admission
from botpool.store.database import Database
from botpool.store.doctor import list_slot_containers
from botpool.store.meeboter import MeeboterDatabase, queries
from botpool.store.pools import lock_pool
from botpool.store.slots import adopt_slot, find_free_slot_number

_CALL_TIMEOUT_S = 60.0
_MAX_NUMBERS = 10
"""How often another replica may take the slot's number before the import gives up."""
_MIN_QUEUE_MS = 60_000
_MAX_NAME = 100
_CALLER = Caller(
    # No API key has this id: the idempotency keys of the import are a space of their own.
    key_id=0,
    key_name="import from Meeboter",
    scope="operator",
    tenant_id=DEFAULT_TENANT_ID,
    tenant=DEFAULT_TENANT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """The changes that an import makes, and what it leaves alone."""

    slots: Sequence[SlotPlan]
    bots: Sequence[BotPlan]
    moving: Sequence[MeeboterBot]
    """Bots that an interrupted import took off Meeboter's queue."""

    @property
    def changes(self) -> int:
        steps = [*(plan.step for plan in self.slots), *(plan.step for plan in self.bots)]
        return len(self.moving) + sum(step in CHANGES for step in steps)

    @property
    def live(self) -> int:
        """The number of slots that wait for the end of a live bot."""
        return sum(plan.step is ImportStep.WAIT for plan in self.slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one slot or bot."""

    subject: str
    text: str
    succeeded: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MeeboterImport:
    """Plans and performs the import."""

    meeboter: MeeboterDatabase
    database: Database
    admission: Admission
    adopter: ContainerAdopter | None
    """Coolify; None leaves the slots and their applications alone."""
    image_host: str
    pools: Mapping[PoolName, str]
    """The image of each pool."""
    slot_pools: frozenset[PoolName]
    """The pools whose slots are applications of Coolify."""
    max_queue_timeout_ms: int

    async def plan(self) -> ImportPlan:
        """Read both systems and decide. This changes nothing."""
        slots: list[SlotPlan] = []
        if self.adopter is not None:
            owned = {
                slot.container_id: slot.slot_name
                for slot in await list_slot_containers(self.database)
                if slot.container_id is not None
            }
            rows = await queries.list_meeboter_slots(self.meeboter)
            slots = plan_slots(rows, self.slot_pools, owned)
        bots = plan_bots(await queries.list_queued_bots(self.meeboter), frozenset(self.pools))
        has_moved = await queries.has_moved_bots(self.meeboter)
        moving = await queries.list_moving_bots(self.meeboter) if has_moved else []
        return ImportPlan(slots=slots, bots=bots, moving=moving)

    async def apply(self, plan: ImportPlan) -> AsyncIterator[Outcome]:
        """Make the changes of the plan, and yield each when it is done: slots first, then bots.

        A slot or bot that cannot be moved is reported and does not stop the others.
        """
        changed = [each for each in plan.slots if each.step in CHANGES]
        containers = await self._find_containers(changed)
        for slot_plan in changed:
            container = containers.get(slot_plan.slot.container_id)
            change = self._adopt if slot_plan.step is ImportStep.ADOPT else self._delete
            subject = f"slot {slot_plan.slot.id} {slot_plan.slot.slot_name}"
            yield await self._report(subject, change(slot_plan, container))
        if plan.moving or any(each.step is ImportStep.QUEUE for each in plan.bots):
            await queries.create_moved_bots(self.meeboter)
        for bot in plan.moving:
            yield await self._report(f"bot {bot.bot_id}", self._create_bot(bot))
        for each in plan.bots:
            if each.step is ImportStep.QUEUE:
                yield await self._report(f"bot {each.bot.bot_id}", self._move_bot(each.bot))

    async def _report(self, subject: str, change: Coroutine[Any, Any, str]) -> Outcome:
        try:
            return Outcome(subject=subject, text=await change)
        except BotpoolError as error:
            return Outcome(subject=subject, text=str(error), succeeded=False)

    async def _find_containers(
        self, plans: Sequence[SlotPlan]
    ) -> Mapping[ContainerId, ForeignContainer]:
        if self.adopter is None or not plans:
            return {}
        container_ids = [each.slot.container_id for each in plans]
        return await self.adopter.find_containers(container_ids, timeout_s=_CALL_TIMEOUT_S)

    async def _adopt(self, plan: SlotPlan, container: ForeignContainer | None) -> str:
        slot, pool_name = plan.slot, plan.pool_name
        assert self.adopter is not None
        assert pool_name is not None
        if container is None:
            raise ImportRefused(f"Coolify has no application {slot.container_id}; left alone")
        # An interrupted import renamed the application of a slot that it had claimed.
        if container.name != slot.slot_name and not slot.is_moved:
            raise ImportRefused(f"its application is named {container.name} in Coolify; left alone")
        await self._claim(plan, MOVED)
        found = pool_and_number(slot.slot_name)
        wanted = found[1] if found else 1
        for _ in range(_MAX_NUMBERS):
            number = await find_free_slot_number(self.database, pool_name=pool_name, wanted=wanted)
            if number is None:
                raise ImportRefused(
                    f"pool {pool_name} has its maximum of slots: raise max_size and run this again"
                )
            slot_name = f"pool-{pool_name}-{number:03d}"
            await self.adopter.adopt(slot.container_id, slot_name, timeout_s=_CALL_TIMEOUT_S)
            insert = adopt_slot.statement(
                pool_name=pool_name,
                number=number,
                slot_name=slot_name,
                container_id=slot.container_id,
                image=container.image or self.pools[pool_name],
                image_host=self.image_host,
                reason=reasons.adopted_from(slot.slot_name),
            )
            await self.database.commit([lock_pool.statement(pool_name=pool_name), insert])
            if insert.result is not None or await self._has_slot(slot.container_id):
                return f"is {slot_name} now; Botpool stops it before its first bot"
        raise ImportRefused(f"other replicas take every number of pool {pool_name}: run this again")

    async def _has_slot(self, container_id: ContainerId) -> bool:
        """Return whether a slot that a replica created at the same time took the container."""
        slots = await list_slot_containers(self.database)
        return any(slot.container_id == container_id for slot in slots)

    async def _delete(self, plan: SlotPlan, container: ForeignContainer | None) -> str:
        assert self.adopter is not None
        if container is not None and container.name != plan.slot.slot_name:
            raise ImportRefused(f"its application is named {container.name} in Coolify; left alone")
        await self._claim(plan, DUPLICATE)
        if container is not None:
            await self.adopter.delete_foreign(plan.slot.container_id, timeout_s=_CALL_TIMEOUT_S)
        await queries.delete_meeboter_slot(self.meeboter, slot_id=plan.slot.id)
        return "duplicate deleted, with its application"

    async def _claim(self, plan: SlotPlan, status: str) -> None:
        """Take the slot away from Meeboter, unless Meeboter gave it a bot since the plan."""
        slot_id = plan.slot.id
        if not await queries.claim_meeboter_slot(self.meeboter, slot_id=slot_id, status=status):
            raise ImportRefused("Meeboter gave it a bot meanwhile: run this again after its end")

    async def _move_bot(self, bot: MeeboterBot) -> str:
        taken = await queries.take_queued_bot(self.meeboter, bot_id=bot.bot_id)
        if not taken:
            raise ImportRefused("left Meeboter's queue meanwhile, or was moved before; left alone")
        return await self._create_bot(taken[0])

    async def _create_bot(self, bot: MeeboterBot) -> str:
        """Create the bot in Botpool, or find the bot of an interrupted import by its key."""
        key = f"meeboter-{bot.bot_id}"
        assert bot.pool_name is not None
        assert bot.meeting_url is not None
        request = BotRequest(
            caller=_CALLER,
            pool_name=bot.pool_name,
            meeting_url=bot.meeting_url,
            bot_display_name=(bot.display_name or "Botpool")[:_MAX_NAME],
            bot_data={**bot.details, "meeting": bot.meeting, "meeboterBotId": bot.bot_id},
            priority=bot.priority,
            queue_timeout_ms=min(max(bot.remaining_ms, _MIN_QUEUE_MS), self.max_queue_timeout_ms),
            correlation_id=key,
        )
        # The remaining time differs in a repeated import, so the hash covers the key alone.
        body_hash = hashlib.sha256(key.encode()).digest()
        admitted = await self.admission.admit(request, IdempotencyKey(key=key, body_hash=body_hash))
        await queries.finish_bot_move(
            self.meeboter, bot_id=bot.bot_id, botpool_bot_id=admitted.bot.id
        )
        return f"is bot {admitted.bot.id} now ({admitted.bot.status})"
