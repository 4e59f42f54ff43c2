"""Statements about slots without a bot, and about operators' changes of slots."""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId
from botpool.domain.records import FencedSlot, Slot, SlotChange
from botpool.domain.states import SlotStatus
from botpool.store.statement import Statement, column, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """The state of a slot that an operator's command depends on."""

    slot_id: SlotId
    slot_name: str
    pool_name: PoolName
    status: SlotStatus
    container_id: ContainerId | None
    assignment_id: AssignmentId | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOfBot:
    """The slot that a bot is assigned to."""

    slot_id: SlotId
    status: SlotStatus
    assignment_id: AssignmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSlot(SlotChange):
    """A slot that became `deleting`; `status` is its status before."""

    status: SlotStatus


def list_slots(
    *,
    pool_name: PoolName | None = None,
    status: SlotStatus | None = None,
    slot_id: SlotId | None = None,
) -> Statement[Slot]:
    """List slots, as operators see them."""
    parameters = {"pool_name": pool_name, "status": status, "slot_id": slot_id}
    return Statement("list_slots", parameters, record_of(Slot))


def find_slot(slot_id: SlotId) -> Statement[SlotState]:
    """Read the state of a slot that an operator's command depends on."""
    return Statement("find_slot", {"slot_id": slot_id}, record_of(SlotState))


def find_slot_of_bot(bot_id: BotId) -> Statement[SlotOfBot]:
    """Find the slot that a bot is assigned to."""
    return Statement("find_slot_of_bot", {"bot_id": bot_id}, record_of(SlotOfBot))


def cordon_slots(
    *,
    slot_id: SlotId | None = None,
    pool_name: PoolName | None = None,
    cordoned: bool,
    reason: str,
    correlation_id: str | None,
) -> Statement[SlotId]:
    """Cordon or uncordon one slot, or all slots of a pool; returns the changed ones."""
    parameters = {
        "slot_id": slot_id,
        "pool_name": pool_name,
        "cordoned": cordoned,
        "reason": reason,
        "correlation_id": correlation_id,
    }
    return Statement("cordon_slots", parameters, column("slot_id", SlotId))


def request_slot_deletion(
    slot_id: SlotId, *, reason: str, correlation_id: str | None
) -> Statement[SlotId]:
    """Mark a slot that has a bot for deletion after the bot's end; the slot takes no other bot."""
    parameters = {"slot_id": slot_id, "reason": reason, "correlation_id": correlation_id}
    return Statement("request_slot_deletion", parameters, column("slot_id", SlotId))


def mark_slot_deleting(
    slot_id: SlotId,
    *,
    version: int | None,
    reason: str,
    correlation_id: str | None = None,
    holds_lease: bool = False,
) -> Statement[DeletedSlot]:
    """Start the deletion of a slot without a bot, with its container."""
    parameters = {
        "slot_id": slot_id,
        "version": version,
        "reason": reason,
        "correlation_id": correlation_id,
        "holds_lease": holds_lease,
    }
    return Statement("mark_slot_deleting", parameters, record_of(DeletedSlot))


def mark_slot_error(slot_id: SlotId, *, version: int, reason: str) -> Statement[SlotChange]:
    """Take an idle slot to `error`, so that the reconciler resets it."""
    parameters = {"slot_id": slot_id, "version": version, "reason": reason}
    return Statement("mark_slot_error", parameters, record_of(SlotChange))


def retry_slot_now(
    slot_id: SlotId, *, version: int, reason: str, correlation_id: str | None
) -> Statement[SlotId]:
    """Make a slot's next step due now."""
    parameters = {
        "slot_id": slot_id,
        "version": version,
        "reason": reason,
        "correlation_id": correlation_id,
    }
    return Statement("retry_slot_now", parameters, column("slot_id", SlotId))


def reset_slot(
    slot: FencedSlot, *, container_id: ContainerId, image: str, limits: str
) -> Statement[SlotChange]:
    """Make a slot in `error` idle after its container was stopped or created again."""
    parameters = {
        "slot_id": slot.slot_id,
        "version": slot.version,
        "container_id": container_id,
        "image": image,
        "limits": limits,
        "reason": reasons.RESET,
    }
    return Statement("reset_slot", parameters, record_of(SlotChange))


def remove_slot(slot: FencedSlot) -> Statement[SlotChange]:
    """Remove a slot whose container is gone."""
    parameters = {
        "slot_id": slot.slot_id,
        "version": slot.version,
        "reason": reasons.CONTAINER_GONE,
    }
    return Statement("remove_slot", parameters, record_of(SlotChange))
