"""The whole seam between the engine and a backend.

Rules that every backend keeps, so that the engine may repeat any call after a crash:

- Every call is idempotent and ends within the timeout it was given.
- A failure is one of four: `ContainerGone` (the backend says 404), `BackendRefused` (set-up is
  wrong), `StartSuperseded` (the start is out of date) or `BackendUnavailable` (no evidence; as
  `BudgetExhausted` it says when to come again).
- `start` never runs one assignment twice, and never runs an assignment that was stopped.
- `stop` covers a start that is still under way: once it was called for an assignment, a start of
  that assignment that arrives later does not leave a container running, where the backend allows
  it; the docs of each backend name what it cannot fence.
- Containers carry the installation's id. What carries another's, or none, is not ours.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """The image_host that a slot wants to have."""

    name: str
    pool_name: str
    image: str
    cpus: float = 1.0
    memory_mb: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """One start: which container, for whom, with what in its environment."""

    container_id: ContainerId
    assignment_id: AssignmentId
    correlation_id: str
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedContainer:
    """A container of this installation at the backend."""

    container_id: ContainerId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    ok: bool
    detail: str = ""


class RequestPurpose(Enum):
    """What a request to a backend is for, the most urgent first."""

    STOP = auto()
    OBSERVE = auto()
    START = auto()
    CREATE = auto()
    """Containers that no bot waits in: whoever has one already starts first."""
    DESCRIPTION = auto()


class RequestBudget(Protocol):
    """How many requests a backend takes, shared by all replicas."""

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        """Take so many at once, or none: then `BudgetExhausted`. Less urgent purposes get less."""

    async def pause(self, seconds: float) -> None:
        """The backend asked to be left alone: nobody gets anything before then."""


class Backend(Protocol):
    name: str
    image_host: str
    """Where its images are kept: what was pulled there once need not be pulled again."""
    status_lag_s: float
    """How long the backend may go on showing a state that is over."""
    concurrent_starts: int | None
    """How many deployments may be under way at once; None where there is no limit."""
    has_descriptions: bool
    """Whether `describe` shows anything to anybody."""

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Let go of what this process holds; containers go on running."""

    async def ensure(self, spec: ContainerSpec, *, timeout_s: float) -> ContainerId:
        """The stopped container of that name: found by name and mark (the oldest), else made.

        One found running is stopped, and seen stopped, before it is handed out: until then
        `StillRunning`.
        """

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        """Write the environment and start the container, at most once for each assignment.

        `BackendRefused` means that this call started nothing.
        """

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        """How a start stands that `look` does not show under way; None if the backend lost it."""

    async def observe(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, Observation]:
        """Look at many containers at once. One that the backend says is gone is GONE.

        A container whose deployment is under way carries it, and is not shown as ended.
        """

    async def stop(
        self, container_id: ContainerId, assignment_id: AssignmentId | None, *, timeout_s: float
    ) -> None:
        """Cancel the start under way, then ask the container to end, then make it.

        With an assignment, that one can never run here again. It may return before the container
        has ended: only a look confirms.
        """

    async def delete(self, container_id: ContainerId, *, timeout_s: float) -> None:
        """Remove the container. Already gone is done."""

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        """Every container that carries this installation's mark."""

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        """Show the slot's state in the backend's own page. Best effort."""

    def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        """Output of that assignment's run; nothing when it is no longer kept."""

    def changes(self) -> AsyncIterator[ContainerId]:
        """Hints that a container changed. May miss and repeat; never evidence by itself."""

    async def check(self, *, timeout_s: float) -> Health:
        """Does the backend answer, and is the set-up right?"""
