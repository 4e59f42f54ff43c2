"""Webhooks: addresses to which Botpool sends events, and the decisions about their deliveries."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from ipaddress import IPv6Address, ip_address

from botpool.domain.ids import TenantId
from botpool.domain.meeting_hosts import is_public, meeting_host

DELAYS_S: Sequence[float] = (
    0,
    5,
    5 * 60,
    30 * 60,
    2 * 3600,
    5 * 3600,
    10 * 3600,
    14 * 3600,
    20 * 3600,
    24 * 3600,
)
"""The delay before each attempt. After the last attempt a delivery has failed."""
JITTER = 0.1
"""A delay is longer by up to this share, so that retries of many events spread."""
TIMEOUT_S = 15.0
"""The time for one request, from the lookup of the name to the end of the answer."""
MAX_RETRY_AFTER_S = 24 * 3600.0
DISABLED_AFTER_DAYS = 5
PAUSED_AFTER_FAILURES = 8
PAUSE_S = 60.0
"""After so many failures in a row, a webhook gets one attempt in this time."""
MAX_WEBHOOKS = 20
"""Per tenant, and for the webhooks of all tenants."""


class DeliveryStatus(StrEnum):
    """The state of a delivery.

    - `pending`: an attempt follows, or an earlier event of the same bot is still pending
    - `delivered`: the endpoint answered with a 2xx status
    - `failed`: the last attempt failed. `replay` delivers the event again
    """

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that gets events, without its secret."""

    id: int
    tenant_id: TenantId | None
    tenant: str | None
    """The only tenant whose events the webhook gets; None: events of all tenants and pools."""
    url: str
    description: str
    events: list[str] | None
    """The types of events that it gets; None: all."""
    created_at: datetime
    created_by: str
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    last_delivered_at: datetime | None
    paused_until: datetime | None
    overlap_ends_at: datetime | None
    """Until then the secret from before the rotation signs, too."""
    pending: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event for a webhook, with its last attempt."""

    id: int
    webhook_id: int
    event_id: str
    type: str
    bot_id: int | None
    status: DeliveryStatus
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    url: str
    payload: str
    response_status: int | None
    response_body: str | None
    problem: str | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one request: the answer of the endpoint, or why there is none."""

    status: int | None = None
    body: str = ""
    problem: str | None = None
    retry_after_s: float | None = None
    duration_ms: int = 0

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        return self.status == 410


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an attempt means for its delivery and its webhook."""

    status: DeliveryStatus
    delay_s: float | None = None
    """The time to the next attempt of a pending delivery."""
    pause_s: float | None = None
    """How long the endpoint wants no requests at all."""
    disables: bool = False


def judge(answer: Answer, *, attempts: int, random: Callable[[], float]) -> Verdict:
    """Decide what follows from the answer to the given attempt, counted from 1."""
    if answer.is_success:
        return Verdict(status=DeliveryStatus.DELIVERED)
    wait_s = min(answer.retry_after_s or 0.0, MAX_RETRY_AFTER_S)
    pause_s = wait_s if wait_s and answer.status in (429, 503) else None
    if attempts >= len(DELAYS_S):
        return Verdict(status=DeliveryStatus.FAILED, pause_s=pause_s, disables=answer.is_gone)
    delay_s = DELAYS_S[attempts] * (1 + JITTER * random())
    return Verdict(
        status=DeliveryStatus.PENDING,
        delay_s=max(delay_s, wait_s),
        pause_s=pause_s,
        disables=answer.is_gone,
    )


def retry_after(text: str | None, now: datetime) -> float | None:
    """Read the header `Retry-After`: seconds or a date; None without a usable value."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    wait_s = (at - now).total_seconds()
    return wait_s if wait_s > 0 and math.isfinite(wait_s) else None


def is_allowed_address(address: str, *, allow_private: bool) -> bool:
    """Whether Botpool may connect to an IP address that a name resolves to."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if parsed.is_multicast or parsed.is_unspecified:
        return False
    return allow_private or is_public(parsed)


def host_problem(url: str, *, allow_private: bool) -> str | None:
    """Say why a webhook may not have this address, as far as its spelling tells."""
    host = meeting_host(url)
    if host is None:
        return "its host is not valid"
    if allow_private or is_public(host):
        return None
    return f"its host {host} is private. An operator can set webhooks.allow_private_addresses"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedWebhook:
    """The sealed secrets of a webhook."""

    id: int
    sealed_secret: bytes = field(repr=False)
    former_sealed_secret: bytes | None = field(repr=False)
