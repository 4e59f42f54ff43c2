"""Errors of requests and commands: what a caller asks for is not possible."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Protocol, Self

from botpool.domain.errors.base import BotpoolError
from botpool.domain.states import BotStatus


class _StartedBot(Protocol):
    """The fields of a bot that tell how far it is."""

    @property
    def id(self) -> int: ...
    @property
    def status(self) -> BotStatus: ...
    @property
    def assigned_at(self) -> datetime | None: ...
    @property
    def ended_at(self) -> datetime | None: ...


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(eq=False)
class NotFound(BotpoolError):
    template = "There is no {kind} {key}."
    kind: str
    key: object


@dataclass(eq=False)
class UnknownPool(BotpoolError):
    """No pool can be chosen for the request."""

    detail: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.detail} Pools here: {', '.join(self.known) or 'none'}."


@dataclass(eq=False)
class MeetingHostRefused(BotpoolError):
    """The pool does not send bots to the host of the meeting link."""

    template = (
        "The pool {pool_name} does not accept links to this host. It accepts {accepted}. "
        "An operator can add hosts in pools.{pool_name}.allowed_hosts."
    )
    pool_name: str
    allowed_hosts: tuple[str, ...]

    @property
    def accepted(self) -> str:
        words = ("public addresses" if host == "*" else host for host in self.allowed_hosts[:10])
        return ", ".join(words)

    def __str__(self) -> str:
        return self.template.format(pool_name=self.pool_name, accepted=self.accepted)


@dataclass(eq=False)
class UnknownTenant(BotpoolError):
    """A request names a tenant that does not exist, or that its key may not see."""

    template = "There is no tenant '{name}'. Create it with 'botpool tenant create {name}'."
    name: str


@dataclass(eq=False)
class NameTaken(BotpoolError):
    template = "A {kind} with the name '{name}' exists already."
    kind: str
    name: str


@dataclass(eq=False)
class WebhookAddressRefused(BotpoolError):
    """A webhook may not have this address."""

    template = "The webhook's address is refused: {problem}."
    problem: str


@dataclass(eq=False)
class TooManyWebhooks(BotpoolError):
    template = "The tenant has {maximum} webhooks already. Delete one first."
    maximum: int


@dataclass(eq=False)
class IdempotencyConflict(BotpoolError):
    template = (
        "This Idempotency-Key was used for another request. Send a new key for a new bot, "
        "or the first request's body to get its bot again."
    )
    key: str


@dataclass(eq=False)
class NoFreeSlot(BotpoolError):
    """The request may not queue, and no slot is free."""

    template = (
        "No slot of pool {pool_name} is free and the request does not queue "
        "(queueTimeoutMs is 0). Try again in {retry_after_s} s, or let it queue."
    )
    pool_name: str
    retry_after_s: int


@dataclass(eq=False)
class PoolDrained(BotpoolError):
    template = "Pool {pool_name} is drained by an operator and admits no new bots."
    pool_name: str
    retry_after_s: int = 60


@dataclass(eq=False)
class LimitExceeded(BotpoolError):
    """A caller exceeds a limit. A retry can succeed after `retry_after_s`."""

    limit: str
    """The setting of the limit."""
    detail: str
    retry_after_s: int

    def __str__(self) -> str:
        return f"{self.detail} Try again in {self.retry_after_s} s."


class QueueFull(LimitExceeded):
    """As many bots wait in the pool as may wait there."""

    @classmethod
    def of(cls, pool_name: str, max_length: int) -> Self:
        detail = (
            f"The queue of pool {pool_name} is full: queue.max_length allows {max_length} bots."
        )
        return cls("queue.max_length", detail, retry_after_s=10)

    @classmethod
    def of_schedule(cls, pool_name: str, max_length: int) -> Self:
        detail = (
            f"Too many bots of pool {pool_name} are scheduled: queue.max_length allows "
            f"{max_length} bots."
        )
        return cls("queue.max_length", detail, retry_after_s=60)


class TenantQueueFull(LimitExceeded):
    """The tenant has as many queued bots as its quota allows, and no slot is free."""

    @classmethod
    def of(cls, tenant: str, max_queued: int) -> Self:
        detail = (
            f"No slot is free, and the tenant's maxQueued allows {tenant} {max_queued} queued bots."
        )
        return cls("the tenant's maxQueued", detail, retry_after_s=10)


@dataclass(eq=False)
class PriorityNotAllowed(BotpoolError):
    """The key may not use a priority that low."""

    template = (
        "priority: this key may use {min_priority} or more, not {priority}. Lower goes first; an "
        "admin can create a key with another --min-priority."
    )
    priority: int
    min_priority: int


@dataclass(eq=False)
class JoinTimeRefused(BotpoolError):
    """A bot cannot be scheduled for this time."""

    template = (
        "joinAt: should lie in the future, at most {max_days} days ahead, by the server's clock."
    )
    max_days: int


@dataclass(eq=False)
class NoReservation(BotpoolError):
    """The request requires a reservation, and none is possible at its time."""

    pool_name: str
    nearest_free: datetime | None
    """The nearest join time at which a reservation is possible; None if none was found."""
    tenant: str | None = None
    """Set if the quota of the tenant, not the pool, is exhausted."""

    def __str__(self) -> str:
        if self.tenant is not None:
            return (
                f"The tenant {self.tenant} has reserved as many slots for this time as its "
                "maxBooked or maxLive allows. Choose another time, or leave out requireReservation."
            )
        advice = "Leave out requireReservation to schedule the bot without a reservation."
        if self.nearest_free is None:
            return f"Pool {self.pool_name} has no slot to reserve near this time. {advice}"
        return (
            f"Pool {self.pool_name} has no slot to reserve at this time. The nearest free joinAt "
            f"is {_moment(self.nearest_free)}. {advice}"
        )


@dataclass(eq=False)
class BotHasStarted(BotpoolError):
    """The bot can no longer be changed."""

    STARTED: ClassVar = frozenset(BotStatus) - {
        BotStatus.SCHEDULED,
        BotStatus.PENDING,
        BotStatus.QUEUED,
    }
    template = "Bot {bot_id} {event} and can no longer be changed."
    bot_id: int
    event: str

    @classmethod
    def of(cls, bot: "_StartedBot") -> Self:
        """Say what happened to the bot, and when."""
        if bot.ended_at is not None:
            event = f"ended as {bot.status} at {_moment(bot.ended_at)}"
        elif bot.status is BotStatus.DEPLOYING and bot.assigned_at is not None:
            event = f"got its slot at {_moment(bot.assigned_at)}"
        else:
            event = f"is {bot.status}: it began to join"
        return cls(bot.id, event)


@dataclass(eq=False)
class ShuttingDown(BotpoolError):
    template = "Botpool is being stopped and admits no new bots."
    retry_after_s: int = 10


@dataclass(eq=False)
class SlotInUse(BotpoolError):
    """The slot has a live bot, and the command was not forced."""

    template = "Slot {slot_id} has a live bot, or is being deleted already."
    slot_id: int


@dataclass(eq=False)
class NotReleasableByForce(BotpoolError):
    """The slot is not in the condition that a forced release is for."""

    template = "Slot {slot_id} cannot be released by force: {problem}."
    slot_id: int
    problem: str


@dataclass(eq=False)
class BotHasEnded(BotpoolError):
    """The bot can take no command any more."""

    template = "Bot {bot_id} has ended and takes no commands."
    bot_id: int


@dataclass(eq=False)
class TooManyCommands(BotpoolError):
    template = (
        "Bot {bot_id} has too many commands: at most {max_open} that it has not acknowledged, and "
        "{max_commands} in all."
    )
    bot_id: int
    max_open: int
    max_commands: int


@dataclass(eq=False)
class NotAPicture(BotpoolError):
    """An agent's screenshot is no picture that browsers show safely."""

    template = "A screenshot must be a PNG, JPEG or WebP picture."
