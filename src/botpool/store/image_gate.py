"""Statements about the image gate: slots that wait for an image or for their start."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.ids import BotId, PoolName, SlotId
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPastImageGate:
    """A slot whose image is present, or that leads the pull of its image."""

    slot_id: SlotId
    pool_name: PoolName
    slot_name: str
    image: str
    image_host: str
    leads: bool
    bot_id: BotId | None
    """None for a standby."""
    correlation_id: str | None
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPastStartGate:
    """A slot that may start."""

    slot_id: SlotId
    pool_name: PoolName
    version: int
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImage:
    """An image that was started on an image host."""

    image: str
    is_missing: bool
    """Whether more nodes of the image host lack it than may pull it at once."""


@query
def lock_gate(*, backend: str) -> None:
    """Take the lock of a backend's image gate until the transaction ends."""


@query
def pass_image_gate(
    *,
    backend: str,
    image_known_s: float,
    wait_timeout_s: float,
    concurrent_pulls: int = 1,
    leads_reason: str = reasons.LEADS_PULL,
    present_reason: str = reasons.IMAGE_PRESENT,
) -> list[SlotPastImageGate]:
    """Let slots pass whose image is present, and the slots that lead pulls of other images."""


@query
def list_known_images(*, backend: str, image_host: str, image_known_s: float) -> list[KnownImage]:
    """List the images that are known on an image host."""


@query
def mark_missing_images(*, backend: str, image_host: str, missing: Sequence[str]) -> None:
    """Record which known images more nodes lack than may pull at once; all others are not."""


@query
def pass_start_gate(
    *,
    backend: str,
    limit: int | None,
    reason: str = reasons.START_ALLOWED,
    probe_reason: str = reasons.BREAKER_PROBES,
) -> list[SlotPastStartGate]:
    """Let slots start, within the backend's limit of starts and the permits of their egress."""
