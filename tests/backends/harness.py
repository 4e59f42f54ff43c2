"""What the conformance suite needs to know of a backend, and the few words its tests share."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from botpool.backends.protocol import Backend, ContainerSpec, StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import DOWN, ContainerState, Observation

TIMEOUT_S = 30.0
SPEC = ContainerSpec(name="pool-teams-001", pool_name="teams", image="bot:1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One run of a program, as the program saw it."""

    environment: Mapping[str, str]
    files: Sequence[str] = field(default=())
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a backend can give. Where it cannot, the suite asks for the next best thing."""

    shows_exit_codes: bool = True
    keeps_output: bool = True
    """Of a run that has ended. Else there is output only while it runs."""
    removes_variables: bool = True
    """Of a former run. Else they are there, but empty."""
    knows_owners: bool = True
    """Whose a container is that is not ours. Else it can only be left alone."""
    is_prompt: bool = True
    """What was done shows at once, a stop or a deletion when the call returns. Else later."""


class Harness(Protocol):
    traits: Traits

    async def control_plane(self, installation: str = "one", start_s: float = 0) -> Backend:
        """An open backend. A second one is another replica, or the next one after a crash.

        `start_s` is how long each start takes, where the backend can be told to take longer.
        """

    def program(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        """The environment in which the container's program behaves so (see `program.py`)."""

    def runs(self, assignment_id: AssignmentId) -> Sequence[Witness]:
        """Every run of that assignment's program so far."""

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        """Another, younger container of the same name and mark, as a crash may leave one."""

    async def crash_in_start(self, order: StartRequest) -> None:
        """Leave the backend as a control plane does that is killed while it starts this."""

    def outage(self) -> AbstractContextManager[None]:
        """Meanwhile the backend does not answer. Containers go on running."""


def order(
    harness: Harness, container_id: ContainerId, number: int, behaviour: str = "run", **extra: str
) -> StartRequest:
    assignment_id = AssignmentId(number)
    return StartRequest(
        container_id=container_id,
        assignment_id=assignment_id,
        correlation_id=f"correlation-{number}",
        environment={**harness.program(assignment_id, behaviour), **extra},
    )


async def observe(backend: Backend, container_id: ContainerId) -> Observation:
    return (await backend.observe([container_id], timeout_s=TIMEOUT_S))[container_id]


async def eventually(condition: Callable[[], object], within_s: float = TIMEOUT_S) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come to pass"
        await asyncio.sleep(0.005)


async def seen(backend: Backend, container_id: ContainerId, *states: ContainerState) -> Observation:
    """Look until the container is in one of these states."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while (observation := await observe(backend, container_id)).state not in states:
        assert time.monotonic() < give_up_at, observation
        await asyncio.sleep(0.005)
    return observation


async def seen_down(backend: Backend, container_id: ContainerId) -> Observation:
    return await seen(backend, container_id, *DOWN)


async def running(
    harness: Harness, backend: Backend, number: int, behaviour: str = "run", **extra: str
) -> ContainerId:
    """A container in which that assignment's program runs, and is seen to run."""
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    await backend.start(
        order(harness, container_id, number, behaviour, **extra), timeout_s=TIMEOUT_S
    )
    await eventually(lambda: harness.runs(AssignmentId(number)))
    if not harness.traits.is_prompt and not behaviour.startswith("exit"):
        await seen(backend, container_id, ContainerState.RUNNING)
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
