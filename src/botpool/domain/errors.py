"""Errors with fields instead of formatted strings.

One table in `api/problems.py` maps them to HTTP statuses, and one in `cli/errors.py` to exit codes.
"""

from dataclasses import dataclass


class BotpoolError(Exception):
    """The base of all errors of Botpool."""


@dataclass(eq=False)
class NotFound(BotpoolError):
    kind: str
    key: object

    def __str__(self) -> str:
        return f"There is no {self.kind} {self.key}."


@dataclass(eq=False)
class UnknownPool(BotpoolError):
    """No pool can be chosen for the request."""

    detail: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.detail} Pools here: {', '.join(self.known) or 'none'}."


@dataclass(eq=False)
class IdempotencyConflict(BotpoolError):
    key: str

    def __str__(self) -> str:
        return (
            "This Idempotency-Key was used for another request. Send a new key for a new bot, "
            "or the first request's body to get its bot again."
        )


@dataclass(eq=False)
class NoFreeSlot(BotpoolError):
    """The request may not queue, and no slot is free."""

    pool_name: str
    retry_after_s: int

    def __str__(self) -> str:
        return (
            f"No slot of pool {self.pool_name} is free and the request does not queue "
            f"(queueTimeoutMs is 0). Try again in {self.retry_after_s} s, or let it queue."
        )


@dataclass(eq=False)
class PoolDrained(BotpoolError):
    pool_name: str
    retry_after_s: int = 60

    def __str__(self) -> str:
        return f"Pool {self.pool_name} is drained by an operator and admits no new bots."


@dataclass(eq=False)
class ShuttingDown(BotpoolError):
    retry_after_s: int = 10

    def __str__(self) -> str:
        return "Botpool is being stopped and admits no new bots."


@dataclass(eq=False)
class SlotInUse(BotpoolError):
    """The slot has a live bot, and the command was not forced."""

    slot_id: int

    def __str__(self) -> str:
        return f"Slot {self.slot_id} has a live bot, or is being deleted already."


@dataclass(eq=False)
class SettingError(BotpoolError):
    """A setting is invalid; the message names it and the remedy."""

    setting: str
    problem: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.problem}"


@dataclass(eq=False)
class DatabaseUnavailable(BotpoolError):
    """PostgreSQL does not answer. The outcome of the last write may be unknown."""

    detail: str

    def __str__(self) -> str:
        return f"The database does not answer: {self.detail}"


@dataclass(eq=False)
class SchemaMismatch(BotpoolError):
    detail: str

    def __str__(self) -> str:
        return self.detail


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

    container_id: str

    def __str__(self) -> str:
        return f"Container {self.container_id} does not exist any more."


@dataclass(eq=False)
class BackendRefused(BackendError):
    """The backend refuses a call because of a setting; a retry helps only after it changes."""

    setting: str
    problem: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.problem}"


@dataclass(eq=False)
class BackendUnavailable(BackendError):
    """The backend gave no valid answer, which is no evidence; the call is retried later."""

    problem: str

    def __str__(self) -> str:
        return f"The backend does not answer: {self.problem}"


class StillRunning(BackendUnavailable):
    """The container has not stopped yet; the call is retried later."""

    def __str__(self) -> str:
        return self.problem


@dataclass(eq=False)
class BudgetExhausted(BackendUnavailable):
    """The request budget has no room for this purpose until `retry_after_s` has passed."""

    retry_after_s: float

    def __str__(self) -> str:
        return f"{self.problem}; next try in {self.retry_after_s:.0f} s"


@dataclass(eq=False)
class CallSuperseded(BackendError):
    """The call is out of date: a later assignment than it may end has the container."""

    container_id: str
    detail: str

    def __str__(self) -> str:
        return f"Call to container {self.container_id} refused: {self.detail}"


class StartSuperseded(CallSuperseded):
    """The assignment was stopped before its start, or another assignment's container runs."""

    def __str__(self) -> str:
        return f"Start of container {self.container_id} refused: {self.detail}"
