"""Recovery: what becomes of a slot that does not move, by one table.

Every rule names the slot it is for, the evidence it needs and what it does; the first that fits
decides. The table in the docs is written from here. Only positive evidence counts: where the
pool_name did not answer, no rule that needs its word fits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from botpool.domain.observation import ACTIVE_DEPLOYMENT, ContainerState, Observation
from botpool.domain.states import FINAL, BotStatus, SlotPhase, SlotStatus


class RecoveryAction(Enum):
    """What to do; the value of a rule, not of the moment."""

    LEAVE = auto()
    """Nothing is wrong, or nothing is known."""
    RETRY = auto()
    """Reset the slot; the bot is queued again while attempts remain."""
    FAIL = auto()
    """Reset the slot; the bot has failed, and is not retried."""
    END = auto()
    """Its container has ended: so has the bot."""
    TOUCH = auto()
    """Skip: the time starts anew, and the skip is counted."""
    HEAL = auto()
    """The slot is busy, whatever its row says."""
    SKIP = auto()
    """Skip, uncounted."""
    RELEASE = auto()
    """The bot has ended long ago: release its slot."""
    RESET = auto()
    """Nobody's container runs: stop it."""
    DELETE = auto()
    """Resets do not help: take the slot down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryLimits:
    deploying_timeout_s: float = 900.0
    heartbeat_freshness_s: float = 300.0
    max_skipped: int = 3
    deploy_timeout_s: float = 1500.0
    max_resets: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryCase:
    """A slot as a recovery pass finds it."""

    status: SlotStatus
    phase: SlotPhase | None
    still_since: datetime
    """Since when it has not moved, or was last touched."""
    started_at: datetime | None
    """When its start was issued."""
    bot_status: BotStatus | None
    heartbeat_at: datetime | None
    """The last heartbeat of this assignment."""
    silent_since: datetime | None
    """From when its silence counts: the last heartbeat, its start, or the end of our own outage."""
    needs_heartbeats: bool
    skipped: int
    resets: int
    """In a row, since it was last busy."""
    seen: Observation | None
    """What the backend shows; None if it was not asked, or did not answer."""
    has_exited: bool
    """Whether that is certain to be the end of its container."""
    now: datetime
    limits: RecoveryLimits

    @property
    def is_overdue(self) -> bool:
        limit = timedelta(seconds=self.limits.deploying_timeout_s)
        return self.status is SlotStatus.DEPLOYING and self.now - self.still_since > limit

    @property
    def is_silent(self) -> bool:
        """Exactly at the limit is still fresh."""
        limit = timedelta(seconds=self.limits.heartbeat_freshness_s)
        return self.silent_since is not None and self.now - self.silent_since > limit

    @property
    def is_under_way(self) -> bool:
        return self.seen is not None and self.seen.deployment in ACTIVE_DEPLOYMENT

    @property
    def is_within_timeout(self) -> bool:
        limit = timedelta(seconds=self.limits.deploy_timeout_s)
        return self.started_at is None or self.now - self.started_at < limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    slot: str
    evidence: str
    act: RecoveryAction
    fits: Callable[[RecoveryCase], bool]


_S = SlotStatus
_WITH_BOT = (_S.DEPLOYING, _S.BUSY)

RULES: tuple[Rule, ...] = (
    Rule(
        slot="deploying, busy",
        evidence="its bot is final already",
        act=RecoveryAction.RELEASE,
        fits=lambda p: p.status in _WITH_BOT and p.bot_status in FINAL,
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="last heartbeat > 5 min ago: it did run",
        act=RecoveryAction.FAIL,
        fits=lambda p: p.is_overdue and p.heartbeat_at is not None and p.is_silent,
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="heartbeat fresh, skipped < 3 times",
        act=RecoveryAction.TOUCH,
        fits=lambda p: (
            p.is_overdue and p.heartbeat_at is not None and p.skipped < p.limits.max_skipped
        ),
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="heartbeat fresh, skipped ≥ 3 times",
        act=RecoveryAction.HEAL,
        fits=lambda p: p.is_overdue and p.heartbeat_at is not None,
    ),
    Rule(
        slot="deploying > 15 min",
        evidence="no heartbeat, deployment queued or in progress, under the 25 min",
        act=RecoveryAction.SKIP,
        fits=lambda p: p.is_overdue and p.is_under_way and p.is_within_timeout,
    ),
    Rule(
        slot="deploying, phase `starting` > 15 min",
        evidence="no heartbeat, and the backend shows no deployment under way",
        act=RecoveryAction.RETRY,
        fits=lambda p: (
            p.is_overdue
            and p.phase is SlotPhase.STARTING
            and p.seen is not None
            and p.seen.state is not ContainerState.UNKNOWN
            and not p.is_under_way
        ),
    ),
    Rule(
        slot="busy",
        evidence="a fresh look shows it exited",
        act=RecoveryAction.END,
        fits=lambda p: p.status is _S.BUSY and p.has_exited,
    ),
    Rule(
        slot="busy",
        evidence="heartbeats required by the pool and none for 5 min",
        act=RecoveryAction.FAIL,
        fits=lambda p: p.status is _S.BUSY and p.needs_heartbeats and p.is_silent,
    ),
    Rule(
        slot="idle",
        evidence="container seen running",
        act=RecoveryAction.RESET,
        fits=lambda p: (
            p.status is _S.IDLE and p.seen is not None and p.seen.state is ContainerState.RUNNING
        ),
    ),
    Rule(
        slot="error",
        evidence="3 resets in a row did not help",
        act=RecoveryAction.DELETE,
        fits=lambda p: p.status is _S.ERROR and p.resets >= p.limits.max_resets,
    ),
)


def decide(patient: RecoveryCase) -> RecoveryAction:
    """The act of the first rule that fits."""
    return next((rule.act for rule in RULES if rule.fits(patient)), RecoveryAction.LEAVE)


def is_mass_silence(*, silent: int, living: int) -> bool:
    """So many at once are more likely our own deafness than their death."""
    return silent >= _A_CROWD and 2 * silent > living


_A_CROWD = 5
