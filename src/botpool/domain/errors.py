"""Errors with fields instead of formatted strings.

One table in `api/problems.py` maps them to HTTP statuses, and one in `cli/errors.py` to exit codes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, Protocol, Self

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


class BotpoolError(Exception):
    """The base of all errors of Botpool."""

    template: ClassVar[str | None] = None
    """The message, which is formatted with the fields of the error."""

    def __str__(self) -> str:
        return self.template.format_map(vars(self)) if self.template else super().__str__()


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


@dataclass(eq=False)
class SettingError(BotpoolError):
    """A setting is invalid; the message names it and the remedy."""

    template = "{setting}: {problem}"
    setting: str
    problem: str


class ImportRefused(BotpoolError):
    """The import from another system cannot be done; the message says what to do."""


class DatabaseProblem(StrEnum):
    """Why the database does not do its work; the value is part of the problem's type in HTTP."""

    NO_ANSWER = "database-unavailable"
    READ_ONLY = "database-read-only"
    DISK_FULL = "database-disk-full"
    TOO_MANY_CONNECTIONS = "database-too-many-connections"
    SHUTTING_DOWN = "database-shutting-down"
    LOCK_TIMEOUT = "database-lock-timeout"
    STATEMENT_TIMEOUT = "database-statement-timeout"
    CONFLICT = "database-conflict"
    NOT_PERMITTED = "database-not-permitted"
    OUT_OF_RESOURCES = "database-out-of-resources"
    SYSTEM_ERROR = "database-system-error"


_DATABASE_SENTENCES: Mapping[DatabaseProblem, str] = {
    DatabaseProblem.NO_ANSWER: "The database does not answer",
    DatabaseProblem.READ_ONLY: "The database accepts no writes: it is read-only or a standby. "
    "An operator must make it writable or point database.url to the primary",
    DatabaseProblem.DISK_FULL: "The database's disk is full. An operator must free space on it",
    DatabaseProblem.TOO_MANY_CONNECTIONS: "The database has no free connection. "
    "An operator must raise max_connections or close connections of other programs",
    DatabaseProblem.SHUTTING_DOWN: "The database server ended the session",
    DatabaseProblem.LOCK_TIMEOUT: "Another transaction holds a lock for too long",
    DatabaseProblem.STATEMENT_TIMEOUT: "The database took too long",
    DatabaseProblem.CONFLICT: "Concurrent transactions collided too often",
    DatabaseProblem.NOT_PERMITTED: "The database user lacks a permission. "
    "An operator must grant it",
    DatabaseProblem.OUT_OF_RESOURCES: "The database server has no resources left",
    DatabaseProblem.SYSTEM_ERROR: "The database server reports a failure of its own",
}
_RETRY_AFTER_S: Mapping[DatabaseProblem, int] = {
    DatabaseProblem.READ_ONLY: 10,
    DatabaseProblem.DISK_FULL: 30,
    DatabaseProblem.TOO_MANY_CONNECTIONS: 5,
    DatabaseProblem.NOT_PERMITTED: 30,
    DatabaseProblem.OUT_OF_RESOURCES: 10,
    DatabaseProblem.SYSTEM_ERROR: 10,
}
"""When a retry makes sense; after two seconds for the other problems."""


@dataclass(eq=False)
class DatabaseUnavailable(BotpoolError):
    """PostgreSQL does not do its work. The outcome of the last write may be unknown."""

    detail: str
    problem: DatabaseProblem = DatabaseProblem.NO_ANSWER

    @property
    def retry_after_s(self) -> int:
        return _RETRY_AFTER_S.get(self.problem, 2)

    def __str__(self) -> str:
        return f"{_DATABASE_SENTENCES[self.problem]}: {self.detail}"

    @classmethod
    def after(cls, error: Exception) -> Self:
        """Return this error with the first line of the driver's message."""
        lines = str(error).strip().splitlines()
        return cls(lines[0] if lines else type(error).__name__)


@dataclass(eq=False)
class SchemaMismatch(BotpoolError):
    template = "{detail}"
    detail: str


@dataclass(eq=False)
class MigrationFailed(BotpoolError):
    """A migration changed nothing; those before it are applied."""

    template = "The migration {name} failed and changed nothing: {problem}."
    name: str
    problem: str


@dataclass(eq=False)
class ForeignTables(BotpoolError):
    database: str
    tables: Sequence[str]

    def __str__(self) -> str:
        plural = "s" if len(self.tables) > 1 else ""
        return (
            f"The database {self.database} belongs to another system: it has the "
            f"table{plural} {', '.join(self.tables)}. Botpool changed nothing. Create a database "
            "for Botpool alone and name it in database.url."
        )


@dataclass(eq=False)
class AlreadyRunning(BotpoolError):
    data_dir: str
    pid: int | None

    def __str__(self) -> str:
        process = f" (process {self.pid})" if self.pid else ""
        return (
            f"Botpool already runs on the data directory {self.data_dir}{process}. "
            "Use it, stop it first, or choose another directory with --data-dir."
        )


class BackendError(BotpoolError):
    """A call to a backend failed."""


@dataclass(eq=False)
class ContainerGone(BackendError):
    """The backend reports that the container does not exist: a real 404."""

    template = "Container {container_id} does not exist any more."
    container_id: str


@dataclass(eq=False)
class BackendRefused(BackendError):
    """The backend refuses a call because of a setting; a retry helps only after it changes."""

    template = "{setting}: {problem}"
    setting: str
    problem: str


@dataclass(eq=False)
class BackendUnavailable(BackendError):
    """The backend gave no valid answer, which is no evidence; the call is retried later."""

    template = "The backend does not answer: {problem}"
    problem: str


@dataclass(eq=False)
class HealthCheckFailed(BackendUnavailable):
    """The backend gave no valid answer to a health check."""

    address: str
    """Where Botpool looks for the backend; for operators and the log only."""


class StillRunning(BackendUnavailable):
    """The container has not stopped yet; the call is retried later."""

    template = "{problem}"


@dataclass(eq=False)
class BudgetExhausted(BackendUnavailable):
    """The request budget has no room for this purpose until `retry_after_s` has passed."""

    template = "{problem}; next try in {retry_after_s:.0f} s"
    retry_after_s: float


@dataclass(eq=False)
class CallSuperseded(BackendError):
    """The call is out of date: a later assignment than it may end has the container."""

    template = "Call to container {container_id} refused: {detail}"
    container_id: str
    detail: str


class StartSuperseded(CallSuperseded):
    """The assignment was stopped before its start, or another assignment's container runs."""

    template = "Start of container {container_id} refused: {detail}"
