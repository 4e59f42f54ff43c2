"""Errors of calls to a backend."""

from dataclasses import dataclass

from botpool.domain.errors.base import BotpoolError


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
