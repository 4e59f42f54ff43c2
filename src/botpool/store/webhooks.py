"""Statements about webhooks and their deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from botpool.domain.ids import TenantId
from botpool.domain.webhook_events import EventRow
from botpool.domain.webhooks import Delivery, SealedWebhook, Webhook
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWork:
    """A webhook with new history to read, or with deliveries that are due."""

    id: int
    reads: bool
    sends: bool
    is_restored: bool
    """The cursor belongs to another server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookCursor:
    """Up to where a webhook has read history, and which events it wants."""

    id: int
    tenant_id: TenantId | None
    events: list[str] | None
    cursor_xid: int
    cursor_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatchRow:
    """The position after a batch of history, and one of its events; None without any."""

    cursor_xid: int
    cursor_id: int
    newest_id: int
    event: EventRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedDelivery:
    """A delivery whose attempt begins now."""

    id: int
    event_id: str
    type: str
    payload: str
    attempts: int
    url: str
    sealed_secret: bytes = field(repr=False)
    former_sealed_secret: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningWebhook:
    """The address of a webhook and the secrets that sign its requests now."""

    id: int
    url: str
    sealed_secret: bytes = field(repr=False)
    former_sealed_secret: bytes | None = field(repr=False)


@query
def lock_webhooks() -> None:
    """Take the lock under which webhooks are counted and created."""


@query
def insert_webhook(
    *,
    tenant_id: TenantId | None,
    url: str,
    description: str,
    events: Sequence[str] | None,
    sealed_secret: bytes,
    created_by: str,
    max_webhooks: int,
) -> int | None:
    """Create a webhook; None if its tenant has too many."""


@query
def list_webhooks(
    *, webhook_id: int | None = None, tenant_id: TenantId | None = None
) -> list[Webhook]:
    """List webhooks: one, those of a tenant, or all."""


@query
def measure_webhooks() -> float:
    """Read the age of the oldest pending delivery of enabled webhooks, in seconds."""


@query
def delete_webhook(*, webhook_id: int) -> int | None:
    """Delete a webhook and its deliveries."""


@query
def rotate_webhook(*, webhook_id: int, sealed_secret: bytes, overlap_s: float) -> int | None:
    """Give a webhook a new secret; the former one signs too until the overlap ends."""


@query
def list_sealed_secrets() -> list[SealedWebhook]:
    """The sealed secrets of all webhooks."""


@query
def reseal_webhook(
    *,
    webhook_id: int,
    sealed_secret: bytes,
    former_sealed_secret: bytes | None,
    known_secret: bytes,
) -> int | None:
    """Replace the sealed secrets of a webhook, unless a rotation was faster."""


@query
def find_webhook_secrets(*, webhook_id: int) -> SigningWebhook | None:
    """The address of a webhook, and the sealed secrets that sign its requests now."""


@query
def find_webhook_work(*, max_pending: int) -> list[WebhookWork]:
    """Webhooks with new history to read, or with deliveries that are due."""


@query
def lock_webhook_cursor(*, webhook_id: int) -> WebhookCursor | None:
    """Lock a webhook for reading history; None if another replica reads."""


@query
def read_webhook_events(
    *,
    cursor_xid: int,
    cursor_id: int,
    limit: int,
    kinds: Sequence[str],
    states: Sequence[str | None],
    types: Sequence[str],
    events: Sequence[str] | None,
    tenant_id: TenantId | None,
) -> list[EventBatchRow]:
    """The next events of a webhook and the position after them; at least one row."""


@query
def insert_webhook_deliveries(
    *,
    webhook_id: int,
    event_ids: Sequence[str],
    history_ids: Sequence[int],
    bot_ids: Sequence[int | None],
    types: Sequence[str],
    payloads: Sequence[str],
) -> None:
    """Create the deliveries of events, unless they exist."""


@query
def move_webhook_cursor(
    *, webhook_id: int, cursor_xid: int, cursor_id: int, newest_id: int
) -> None:
    """Store the position up to which a webhook has read history."""


@query
def restore_webhook_cursors() -> list[int]:
    """Correct cursors of another server after a restore; the result are the webhooks."""


@query
def lease_webhook_deliveries(
    *, webhook_id: int, limit: int, paused_after: int, lease_s: float
) -> list[LeasedDelivery]:
    """Begin attempts of a webhook's due deliveries."""


@query
def lock_webhook(*, webhook_id: int) -> int | None:
    """Lock a webhook."""


@query
def record_attempts(
    *,
    webhook_id: int,
    ids: Sequence[int],
    attempts: Sequence[int],
    statuses: Sequence[str],
    delays_ms: Sequence[int | None],
    response_statuses: Sequence[int | None],
    response_bodies: Sequence[str],
    problems: Sequence[str | None],
    durations_ms: Sequence[int],
    pause_s: float | None,
    paused_after: int,
    failing_pause_s: float,
    is_gone: bool,
    gone_reason: str,
    failing_reason: str,
    disabled_after_days: int,
) -> str | None:
    """Store the results of attempts; the result is why the webhook is now disabled."""


@query
def find_webhook_event(*, webhook_id: int, event_id: str) -> int | None:
    """A delivery of an event to a webhook."""


@query
def replay_webhook_events(*, webhook_id: int, event_id: str | None) -> list[int]:
    """Make one event, or all failed ones, pending again; one row per event."""


@query
def rewind_webhook(*, webhook_id: int, since: datetime) -> int | None:
    """Let a webhook read history again from a time on."""


@query
def enable_webhook(*, webhook_id: int, lease_s: float) -> list[int]:
    """Enable a webhook again and make its first pending events due."""


@query
def list_webhook_deliveries(
    *, webhook_id: int, before_id: int, status: str | None, limit: int
) -> list[Delivery]:
    """A page of the deliveries of a webhook, newest first."""


@query
def insert_test_delivery(
    *,
    webhook_id: int,
    event_id: str,
    event_type: str,
    payload: str,
    status: str,
    response_status: int | None,
    response_body: str,
    problem: str | None,
    duration_ms: int,
) -> int:
    """Record a test."""


@query
def prune_webhook_deliveries(*, days: int, max_kept: int, limit: int) -> list[int]:
    """Delete a batch of finished deliveries; one row per deleted one."""
