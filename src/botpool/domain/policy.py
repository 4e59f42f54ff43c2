"""The times and limits of the engine. The defaults are those of the settings."""

from dataclasses import dataclass, field

from botpool.domain.limits import Limits
from botpool.domain.recovery import RecoveryLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The times and limits of the engine."""

    queue_poll_s: float = 1.0
    deploy_timeout_s: float = 1500.0
    deploy_grace_s: float = 180.0
    deploy_wait_timeout_s: float = 1800.0
    deploy_attempts: int = 2
    infrastructure_retries: int = 5
    """How often a bot is retried after infrastructure faults, which are no attempts."""
    image_known_s: float = 86_400.0
    """How long after a start its image counts as known on the image host."""
    observe_interval_s: float = 15.0
    recovery_interval_s: float = 60.0
    recovery: RecoveryLimits = field(default_factory=RecoveryLimits)
    limits: Limits = field(default_factory=Limits)
    max_duration_s: float = 21600.0
    leave_grace_s: float = 30.0
    idempotency_days: int = 7
    bots_days: int = 30
    history_days: int = 30
    audit_days: int = 365
    webhook_days: int = 7
    allow_private_webhooks: bool = False
    """Whether webhooks may have private, loopback and link-local addresses."""
    traces: bool = False
    """Whether every bot has a trace, also without `traceparent` in its request."""
    cleanup_interval_s: float = 600.0
    stray_after_s: float = 600.0
    """How long a container must have been a stray before it is deleted."""
    stray_share: float = 0.2
    """The share of strays among our containers above which an operator must confirm."""
    heartbeat_interval_ms: int = 10_000
    self_fence_s: float = 0.0
    """After how long without an answer an agent lets its bot leave; 0 means never."""

    call_timeout_s: float = 8.0
    """The timeout of one call to a backend."""
    lease_s: float = 20.0
    """The duration of a lease. A call is sent only if its timeout ends before the lease."""
    stop_timeout_s: float = 120.0
    """How long a stop may stay unconfirmed, beyond the status lag, before the deletion."""
    describe_interval_s: float = 2.0
    describe_hold_s: float = 30.0
    """How long an unanswered description delays the next one."""
    step_backoff_s: float = 0.5
    step_backoff_max_s: float = 15.0
