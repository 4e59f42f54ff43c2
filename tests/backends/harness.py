"""The interface between the conformance suite and a backend, and functions that tests share."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from botpool.backends.protocol import Backend, ContainerSpec, StartRequest, start_preparer
from botpool.domain.errors import StillRunning
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ENDED_STATES, ContainerState, Observation

TIMEOUT_S = 30.0
SPEC = ContainerSpec(name="pool-teams-001", pool_name="teams", image="bot:1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """One run of a program, as the program reported it."""

    environment: Mapping[str, str]
    files: Sequence[str] = field(default=())
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do. The suite relaxes its checks for the rest."""

    shows_exit_codes: bool = True
    keeps_output: bool | None = True
    """Whether output of an ended run is kept; None if it may be removed at any time."""
    removes_variables: bool = True
    """Whether variables of an earlier run are removed instead of emptied."""
    recognizes_owners: bool = True
    """Whether a foreign container is reported as gone instead of unavailable."""
    takes_effect_at_once: bool = True
    """Whether an observation shows a stop or deletion as soon as the call returns."""
    has_idle_containers: bool = True
    """Whether a slot has a container between its runs, which remembers what was stopped. Else each
    run has its own, and the engine records it between `prepare` and `start`."""
    race_rounds: int = 25
    """How often concurrent starts and stops are tried."""


class Harness(Protocol):
    capabilities: Capabilities

    async def open_backend(self, installation: str = "one", start_s: float = 0) -> Backend:
        """Open a backend. A second one stands for another replica or a restart.

        `start_s` is the duration of a start, where the harness can set it.
        """

    def program_environment(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        """Return the environment that selects the behaviour of `bot_program.py`."""

    def runs(self, assignment_id: AssignmentId) -> Sequence[ProgramRun]:
        """Return all runs of the assignment's program so far."""

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        """Create a younger container with the same name and owner, as a crash may leave one."""

    async def crash_during_start(self, request: StartRequest) -> None:
        """Leave the state of a replica that is killed during this start."""

    def outage(self) -> AbstractContextManager[None]:
        """Make the backend unreachable for the duration; containers keep running."""


def start_request(
    harness: Harness, container_id: ContainerId, number: int, behaviour: str = "run", **extra: str
) -> StartRequest:
    assignment_id = AssignmentId(number)
    return StartRequest(
        container_id=container_id,
        assignment_id=assignment_id,
        correlation_id=f"correlation-{number}",
        environment={**harness.program_environment(assignment_id, behaviour), **extra},
    )


async def prepared(
    backend: Backend, request: StartRequest, spec: ContainerSpec = SPEC
) -> StartRequest:
    """Return the request as the engine passes it to `start`, after it recorded the preparation."""
    preparer = start_preparer(backend)
    if preparer is None:
        return request
    deployment_id = await preparer.prepare(spec, request, timeout_s=TIMEOUT_S)
    return replace(request, deployment_id=deployment_id)


async def start(backend: Backend, request: StartRequest) -> None:
    """Start a run as the engine does."""
    await backend.start(await prepared(backend, request), timeout_s=TIMEOUT_S)


async def delete(backend: Backend, container_id: ContainerId, through: AssignmentId) -> None:
    """Delete a container; a backend may first need the end of its run."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while True:
        try:
            await backend.delete(container_id, stop_through=through, timeout_s=TIMEOUT_S)
        except StillRunning:
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.05)
        else:
            return


async def observe(backend: Backend, container_id: ContainerId) -> Observation:
    return (await backend.observe([container_id], timeout_s=TIMEOUT_S))[container_id]


async def eventually(condition: Callable[[], object], within_s: float = TIMEOUT_S) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, "the condition did not become true"
        await asyncio.sleep(0.005)


async def wait_for_state(
    backend: Backend, container_id: ContainerId, *states: ContainerState
) -> Observation:
    """Observe until the container is in one of these states."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while (observation := await observe(backend, container_id)).state not in states:
        assert time.monotonic() < give_up_at, observation
        await asyncio.sleep(0.005)
    return observation


async def wait_until_down(backend: Backend, container_id: ContainerId) -> Observation:
    return await wait_for_state(backend, container_id, *ENDED_STATES)


async def start_and_wait(
    harness: Harness, backend: Backend, number: int, behaviour: str = "run", **extra: str
) -> ContainerId:
    """Start the assignment's program and wait until it runs."""
    container_id = await backend.ensure(
        SPEC, stop_through=AssignmentId(number - 1), timeout_s=TIMEOUT_S
    )
    await start(backend, start_request(harness, container_id, number, behaviour, **extra))
    await eventually(lambda: harness.runs(AssignmentId(number)))
    if not harness.capabilities.takes_effect_at_once and not behaviour.startswith("exit"):
        await wait_for_state(backend, container_id, ContainerState.RUNNING)
    return container_id


async def output(
    backend: Backend,
    container_id: ContainerId,
    number: int,
    *,
    tail: int | None = None,
    follow: bool = False,
) -> bytes:
    stream = backend.logs(container_id, AssignmentId(number), tail=tail, follow=follow)
    return b"".join([chunk async for chunk in stream])
