"""Statements about the image gate: slots that wait for an image or for their start."""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.ids import BotId, PoolName, SlotId
from botpool.store.statement import Statement, no_rows, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPastImageGate:
    """A slot whose image is present, or that leads the pull of its image."""

    slot_id: SlotId
    pool_name: PoolName
    slot_name: str
    image: str
    image_host: str
    leads: bool
    bot_id: BotId
    correlation_id: str
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPastStartGate:
    """A slot that may start."""

    slot_id: SlotId
    pool_name: PoolName
    version: int
    waited_s: float


def lock_gate(backend: str) -> Statement[None]:
    """Take the lock of a backend's image gate until the transaction ends."""
    return Statement("lock_gate", {"backend": backend}, no_rows)


def pass_image_gate(
    backend: str, *, image_known_s: float, wait_timeout_s: float
) -> Statement[SlotPastImageGate]:
    """Let slots pass whose image is present, and one slot per image that leads its pull."""
    parameters = {
        "backend": backend,
        "image_known_s": image_known_s,
        "wait_timeout_s": wait_timeout_s,
        "leads_reason": reasons.LEADS_PULL,
        "present_reason": reasons.IMAGE_PRESENT,
    }
    return Statement("pass_image_gate", parameters, record_of(SlotPastImageGate))


def pass_start_gate(backend: str, *, limit: int | None) -> Statement[SlotPastStartGate]:
    """Let slots start in the order of their assignment, within the backend's limit of starts."""
    parameters = {"backend": backend, "limit": limit, "reason": reasons.START_ALLOWED}
    return Statement("pass_start_gate", parameters, record_of(SlotPastStartGate))
