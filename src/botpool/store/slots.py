"""Statements about slots without a bot, and about operators' changes of slots."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.fenced_slots import FencedSlot
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId
from botpool.domain.slots import Slot, SlotChange, SlotTransition
from botpool.domain.states import SlotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOfBot:
    """The slot that a bot is assigned to."""

    slot_id: SlotId
    status: SlotStatus
    assignment_id: AssignmentId
    version: int


@query
def list_slots(
    *,
    pool_name: PoolName | None,
    status: SlotStatus | None,
    after_pool: str,
    after_number: int,
    limit: int,
) -> list[Slot]:
    """A page of slots, by pool and number."""


@query
def get_slots(*, slot_ids: Sequence[SlotId]) -> list[Slot]:
    """Slots by id, as operators see them."""


@query
def find_slot(*, slot_id: SlotId) -> FencedSlot | None:
    """Read the state of a slot that an operator's command depends on."""


@query
def find_slots_of_container(*, container_id: ContainerId) -> list[SlotId]:
    """Find the slots whose container has this id: one for each backend at most."""


@query
def find_slot_of_bot(*, bot_id: BotId) -> SlotOfBot | None:
    """Find the slot that a bot is assigned to."""


@query
def cordon_slots(
    *,
    slot_id: SlotId | None = None,
    pool_name: PoolName | None = None,
    cordoned: bool,
    reason: str,
    correlation_id: str | None,
) -> list[SlotId]:
    """Cordon or uncordon one slot, or all slots of a pool; returns the changed ones."""


@query
def request_slot_deletion(
    *, slot_id: SlotId, reason: str, correlation_id: str | None
) -> SlotId | None:
    """Mark a slot that has a bot for deletion after the bot's end; the slot takes no other bot."""


@query
def mark_slot_deleting(
    *,
    slot_id: SlotId,
    version: int | None,
    reason: str,
    correlation_id: str | None = None,
    holds_lease: bool = False,
) -> SlotTransition | None:
    """Start the deletion of a slot without a bot, with its container."""


@query
def mark_slot_error(
    *, slot_id: SlotId, version: int, reason: str, holds_lease: bool = False
) -> SlotChange | None:
    """Take an idle slot to `error`, so that the reconciler resets it."""


@query
def retry_slot_now(
    *, slot_id: SlotId, version: int, reason: str, correlation_id: str | None
) -> SlotId | None:
    """Make a slot's next step due now."""


@query
def reset_slot(
    *,
    slot_id: SlotId,
    version: int,
    container_id: ContainerId,
    image: str,
    limits: str,
    reason: str = reasons.RESET,
) -> SlotChange | None:
    """Make a slot in `error` idle after its container was stopped or created again."""


@query
def remove_slot(
    *, slot_id: SlotId, version: int, reason: str = reasons.CONTAINER_GONE
) -> SlotChange | None:
    """Remove a slot whose container is gone."""


@query
def find_free_slot_number(*, pool_name: PoolName, wanted: int) -> int | None:
    """Find the number for a new slot: the wanted one if it is free, else the first free one."""


@query
def adopt_slot(
    *,
    pool_name: PoolName,
    number: int,
    slot_name: str,
    container_id: ContainerId,
    image: str,
    image_host: str,
    reason: str,
) -> SlotChange | None:
    """Insert a slot for a container of another system, in `error` until its stop is confirmed."""
