"""The interface between the engine and a backend.

Every backend keeps these rules, so that the engine can repeat any call after a crash:

- Every call is idempotent and ends within its timeout. The calls that read many containers
  (`observe`, `list_owned`, `discard_unknown`) hold no lease: if the backend answers in pages, each
  request of such a call has the whole timeout.
- A failure is `ContainerGone` (the backend answers 404), `BackendRefused` (a setting is wrong),
  `CallSuperseded` (the call is out of date) or `BackendUnavailable` (no evidence of anything).
  `BudgetExhausted`, a kind of `BackendUnavailable`, says when to retry.
- `start` never runs an assignment twice, and never runs a stopped assignment. A backend that has
  no place for this memory is a `StartPreparer`: the engine keeps the memory for it.
- Every call that can end a run names the newest assignment that it may end. A later assignment has
  a larger id, so a late call of a paused replica leaves the run of the next bot alone.
- `stop` also covers a start in progress: after a stop of an assignment, a late start of it leaves
  no container running. The docs of each backend name the exceptions that it cannot prevent.
- Containers carry the installation's id. A backend touches no container with another id or none.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol, cast, runtime_checkable

from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState, ExpectedRun, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """The container that a slot needs."""

    name: str
    pool_name: str
    image: str
    cpus: float = 1.0
    memory_mb: int = 2048
    stop_grace_s: float = field(default=30.0, compare=False, repr=False)
    """For a backend that keeps the grace of a stop with the container."""
    abandoned_through: AssignmentId = field(default=AssignmentId(0), compare=False, repr=False)
    """`ensure` does not wait for runs up to this assignment: an operator released their slot by
    force. A backend that gives each run a container of its own still ends them when it can; any
    other backend ignores this field, because the next run needs the same container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """One start of a container for an assignment."""

    container_id: ContainerId
    assignment_id: AssignmentId
    correlation_id: str
    environment: Mapping[str, str] = field(repr=False)
    command: Sequence[str] = field(default=(), repr=False)
    """The arguments of the program; empty means the image's own."""
    entrypoint: Sequence[str] = field(default=(), repr=False)
    deployment_id: DeploymentId | None = None
    """What `StartPreparer.prepare` returned and the engine recorded; None on other backends."""
    has_bot: bool = True
    """False for a standby, which no bot waits for yet."""

    @property
    def purpose(self) -> "RequestPurpose":
        """The purpose of the start's requests: the start of a standby leaves requests to bots."""
        return RequestPurpose.START if self.has_bot else RequestPurpose.CREATE


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedContainer:
    """A container of this installation."""

    container_id: ContainerId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    ok: bool
    detail: str = ""
    """For everyone: names the setting at fault, but contains no address."""
    address: str = ""
    """The address of a failing backend, for operators and the log."""
    weakness: str = ""
    """Why the backend isolates bots less than it could; for `doctor` and the log."""


class RequestPurpose(Enum):
    """The purpose of requests to a backend, most urgent first."""

    STOP = auto()
    OBSERVE = auto()
    START = auto()
    CREATE = auto()
    """Creating and deleting containers, and starts of standbys. Starts for bots go first, because
    bots wait for them."""
    DESCRIPTION = auto()


class StopMode(Enum):
    """How a stop ends a run. A backend that cannot tell them apart uses its own stop for all."""

    ASK = auto()
    """Send the stop signal to the program and return: the program may need minutes to end."""
    KILL = auto()
    """Kill the run."""
    ASK_THEN_KILL = auto()
    """Send the stop signal, and kill the run within this call if it has not ended by then."""


class RequestBudget(Protocol):
    """The number of requests that a backend accepts, shared by all replicas."""

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        """Take all requests or none (`BudgetExhausted`). Less urgent purposes get less."""

    async def pause(self, seconds: float) -> None:
        """Stop all requests for some time, because the backend asked for it."""


@runtime_checkable
class ImageResolver(Protocol):
    """A backend that can find out which image a tag names now."""

    async def resolve_image(self, image: str, *, timeout_s: float) -> str:
        """Return the image with the digest that its registry has now: `name:tag@digest`.

        An image that no registry has is returned unchanged.
        """


class StartPreparer(Protocol):
    """A backend that starts a run in two steps, because its containers exist only for one run.

    A late `prepare` starts nothing. The engine records its answer under the version of the slot, so
    only the slot's owner can pass it on to `start`; `start` then refuses a run that was stopped.
    """

    async def prepare(
        self, spec: ContainerSpec, request: StartRequest, *, timeout_s: float
    ) -> DeploymentId:
        """Create what the start needs, or find what an earlier call created. Starts nothing."""


ReadKnownRuns = Callable[[], Awaitable[Collection[DeploymentId]]]
"""Reads the runs that slots have."""


class RunKeeper(Protocol):
    """A backend that keeps an ended run until the engine has recorded its end."""

    def discard(
        self, container_id: ContainerId, assignment_id: AssignmentId, deployment_id: DeploymentId
    ) -> None:
        """Remove an ended run soon. Best effort: `discard_unknown` finds what this call misses."""

    async def discard_unknown(
        self, read_known: ReadKnownRuns, *, min_age_s: float, timeout_s: float
    ) -> int:
        """Remove ended runs, and runs that were prepared long ago, that no slot knows.

        The backend lists its runs first and then reads the known ones: a run is recorded before it
        can start and end. So an ended run that is not known was released. Returns how many were
        removed.
        """


class NodeImages(Protocol):
    """A backend whose image host is a cluster of nodes, each with images of its own."""

    async def find_missing_images(
        self, images: Collection[str], *, timeout_s: float
    ) -> Collection[str]:
        """Return the images that more nodes lack than `concurrent_pulls` allows to pull at once.

        Only nodes that a start may use count. Empty if the backend may not see its nodes.
        """


class RunProtector(Protocol):
    """A backend whose own maintenance, such as a drain of a node, can end runs."""

    def protect(
        self, container_id: ContainerId, assignment_id: AssignmentId, deployment_id: DeploymentId
    ) -> None:
        """Protect a run soon, because its bot joins its call.

        Best effort: `observe` protects each run that the engine expects to be protected, and ends
        the protection of others.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignContainer:
    """A container that another system created."""

    container_id: ContainerId
    name: str
    image: str | None


@runtime_checkable
class ContainerAdopter(Protocol):
    """A backend whose containers of another system can become containers of this installation."""

    async def find_containers(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, ForeignContainer]:
        """Find containers of any owner; one that the backend does not know is missing."""

    async def adopt(self, container_id: ContainerId, name: str, *, timeout_s: float) -> None:
        """Give the container a slot's name and this installation's mark."""

    async def delete_foreign(self, container_id: ContainerId, *, timeout_s: float) -> None:
        """Stop and delete a container. A container that is already gone is no error."""


NO_RUNS: Mapping[ContainerId, ExpectedRun] = {}


class Backend(Protocol):
    name: str
    image_host: str
    """The host that keeps pulled images; an image needs one pull per host."""
    status_lag_s: float
    """How long the backend may report an old state."""
    concurrent_starts: int | None
    """The limit of concurrent deployments; None for no limit."""
    concurrent_pulls: int
    """How many first starts of one image may pull it at once; 1 where the image host is a single
    machine, more where it is a cluster of nodes that each pull for themselves."""
    has_descriptions: bool
    """Whether `describe` has a visible effect."""
    can_abandon_runs: bool
    """Whether each run has a container of its own, so that the next run can start although the
    stop of the one before was never confirmed (`ContainerSpec.abandoned_through`)."""

    stop_removes_output: bool
    """Whether the output of a run may be lost once the run was stopped."""

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Release the resources of this process; containers keep running."""

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        """Return a stopped container: the oldest with this name and our mark, or a new one.

        A run of an assignment up to `stop_through` is stopped first: `StillRunning` until its stop
        is confirmed. Raises `CallSuperseded` if a later assignment runs or is being started.
        """

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        """Write the environment and start the container, at most once for each assignment.

        `BackendRefused` means that this call started nothing.
        """

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        """Return the state of a deployment that `observe` does not report; None if unknown."""

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        """Observe many containers. A container that the backend does not know is GONE.

        `expected` names the runs that the database knows. A backend that keeps a record of its
        runs ignores it.
        A container with an active deployment reports it, and is never reported as ended.
        """

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        """Cancel the active deployment and end the run, as the mode says.

        Neither this assignment nor an earlier one can ever run in this container again. A run of a
        later assignment is left alone. The call may return before the container has stopped: only
        an observation confirms the stop.
        """

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        """Remove the container. A container that is already gone is no error.

        Raises `CallSuperseded` if an assignment after `stop_through` has the container.
        """

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        """Return every container with this installation's mark."""

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        """Show the slot's state in the backend's own user interface. Best effort."""

    def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        """Yield the output of the assignment's run; nothing if it is no longer kept."""

    def changes(self) -> AsyncIterator[ContainerId]:
        """Yield hints that a container changed. Hints may be missed or repeated."""

    async def check(self, *, timeout_s: float) -> Health:
        """Check that the backend answers and that the settings are right."""


def start_preparer(backend: Backend) -> StartPreparer | None:
    """Return the backend if it prepares starts. It may be wrapped, which `isinstance` misses."""
    return cast("StartPreparer", backend) if hasattr(backend, "prepare") else None


def run_keeper(backend: Backend) -> RunKeeper | None:
    """Return the backend if it keeps ended runs."""
    return cast("RunKeeper", backend) if hasattr(backend, "discard_unknown") else None


def run_protector(backend: Backend) -> RunProtector | None:
    """Return the backend if it can protect runs from its own maintenance."""
    return cast("RunProtector", backend) if hasattr(backend, "protect") else None


def node_images(backend: Backend) -> NodeImages | None:
    """Return the backend if its image host is a cluster of nodes."""
    return cast("NodeImages", backend) if hasattr(backend, "find_missing_images") else None
