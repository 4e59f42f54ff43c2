"""The recovery table: which action a stuck slot needs.

Each rule names its slot, the evidence that it needs and its action; the first rule that matches
decides. `scripts/recovery-table` writes the table of the docs from here. Only positive evidence
counts: without an observation of the backend, no rule that needs one matches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from botpool.domain.observation import ACTIVE_DEPLOYMENT, ContainerState, Observation
from botpool.domain.states import FINAL, BotStatus, SlotPhase, SlotStatus

MASS_SILENCE_MIN_BOTS = 5


class RecoveryAction(Enum):
    """The action of a recovery rule."""

    NOTHING = auto()
    """Nothing is wrong, or there is no evidence."""
    RETRY = auto()
    """Reset the slot; requeue the bot while attempts remain."""
    FAIL = auto()
    """Reset the slot; fail the bot without a retry."""
    END = auto()
    """End the bot, because its container exited."""
    TOUCH = auto()
    """Skip the slot, restart its time and count the skip."""
    HEAL = auto()
    """Set the slot to busy, because its bot runs."""
    SKIP = auto()
    """Skip the slot without counting."""
    RELEASE = auto()
    """Release the slot, because its bot has ended."""
    RESET = auto()
    """Stop the container, because the slot is idle."""
    RETRY_RESET = auto()
    """Reset the slot now, without waiting for the backoff of its last reset."""
    DELETE = auto()
    """Delete the slot, because resets did not repair it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryLimits:
    """The time limits and counts of the rules."""

    deploying_timeout_s: float = 900.0
    heartbeat_freshness_s: float = 300.0
    max_skipped: int = 3
    deploy_timeout_s: float = 1500.0
    max_resets: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryCase:
    """A slot with the evidence that a recovery pass has about it."""

    status: SlotStatus
    phase: SlotPhase | None
    unchanged_since: datetime
    """When the slot last changed its phase, or a pass last touched it."""
    started_at: datetime | None
    """When the start of its container was issued."""
    bot_status: BotStatus | None
    heartbeat_at: datetime | None
    """The last heartbeat of this assignment."""
    silent_since: datetime | None
    """The last heartbeat, the container's start or the end of an outage, whichever is latest."""
    needs_heartbeats: bool
    skipped: int
    resets: int
    """Resets in a row since the slot was last busy."""
    observation: Observation | None
    """None if the backend was not asked or did not answer."""
    has_exited: bool
    """Whether the observation proves that the container exited."""
    now: datetime
    limits: RecoveryLimits

    @property
    def is_overdue(self) -> bool:
        limit = timedelta(seconds=self.limits.deploying_timeout_s)
        return self.status is SlotStatus.DEPLOYING and self.now - self.unchanged_since > limit

    @property
    def is_silent(self) -> bool:
        """A heartbeat that is exactly as old as the limit is still fresh."""
        limit = timedelta(seconds=self.limits.heartbeat_freshness_s)
        return self.silent_since is not None and self.now - self.silent_since > limit

    @property
    def is_silent_for_two_windows(self) -> bool:
        """During mass silence, a bot gets one more window."""
        limit = timedelta(seconds=2 * self.limits.heartbeat_freshness_s)
        return self.silent_since is not None and self.now - self.silent_since > limit

    @property
    def has_active_deployment(self) -> bool:
        return self.observation is not None and self.observation.deployment in ACTIVE_DEPLOYMENT

    @property
    def is_within_timeout(self) -> bool:
        limit = timedelta(seconds=self.limits.deploy_timeout_s)
        return self.started_at is None or self.now - self.started_at < limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the recovery table; `slot` and `evidence` are its text in the docs."""

    slot: str
    evidence: str
    action: RecoveryAction
    matches: Callable[[RecoveryCase], bool]


_S = SlotStatus
_WITH_BOT = (_S.DEPLOYING, _S.BUSY)

RULES: tuple[Rule, ...] = (
    Rule(
        slot="deploying, busy",
        evidence="its bot has ended",
        action=RecoveryAction.RELEASE,
        matches=lambda case: case.status in _WITH_BOT and case.bot_status in FINAL,
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="last heartbeat > 5 min ago: the bot did run",
        action=RecoveryAction.FAIL,
        matches=lambda case: case.is_overdue and case.heartbeat_at is not None and case.is_silent,
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="heartbeat fresh, skipped < 3 times",
        action=RecoveryAction.TOUCH,
        matches=lambda case: (
            case.is_overdue
            and case.heartbeat_at is not None
            and case.skipped < case.limits.max_skipped
        ),
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="heartbeat fresh, skipped ≥ 3 times",
        action=RecoveryAction.HEAL,
        matches=lambda case: case.is_overdue and case.heartbeat_at is not None,
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="no heartbeat, deployment queued or in progress, under the 25 min",
        action=RecoveryAction.SKIP,
        matches=lambda case: (
            case.is_overdue and case.has_active_deployment and case.is_within_timeout
        ),
    ),
    Rule(
        slot="deploying, phase `starting` > 15 min",
        evidence="no heartbeat, and the backend shows no active deployment",
        action=RecoveryAction.RETRY,
        matches=lambda case: (
            case.is_overdue
            and case.phase is SlotPhase.STARTING
            and case.observation is not None
            and case.observation.state is not ContainerState.UNKNOWN
            and not case.has_active_deployment
        ),
    ),
    Rule(
        slot="busy",
        evidence="a fresh observation shows that the container exited",
        action=RecoveryAction.END,
        matches=lambda case: case.status is _S.BUSY and case.has_exited,
    ),
    Rule(
        slot="busy",
        evidence="the pool requires heartbeats and none arrived for 5 min",
        action=RecoveryAction.FAIL,
        matches=lambda case: case.status is _S.BUSY and case.needs_heartbeats and case.is_silent,
    ),
    Rule(
        slot="idle",
        evidence="container observed running",
        action=RecoveryAction.RESET,
        matches=lambda case: (
            case.status is _S.IDLE
            and case.observation is not None
            and case.observation.state in (ContainerState.RUNNING, ContainerState.RESTARTING)
        ),
    ),
    Rule(
        slot="error",
        evidence="3 resets in a row failed",
        action=RecoveryAction.DELETE,
        matches=lambda case: case.status is _S.ERROR and case.resets >= case.limits.max_resets,
    ),
    Rule(
        slot="error",
        evidence="always",
        action=RecoveryAction.RETRY_RESET,
        matches=lambda case: case.status is _S.ERROR,
    ),
)


def decide(case: RecoveryCase) -> RecoveryAction:
    """Return the action of the first rule that matches."""
    return next((rule.action for rule in RULES if rule.matches(case)), RecoveryAction.NOTHING)


def is_mass_silence(*, silent: int, live: int) -> bool:
    """Check whether so many bots are silent at once that Botpool itself is the likely cause."""
    return silent >= MASS_SILENCE_MIN_BOTS and 2 * silent > live
