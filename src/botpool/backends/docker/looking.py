"""Looking at many places with one request, and one more for each that has ended.

Who asks for one alone has a reason to, an event or a stop, and gets the state of this moment.
"""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from botpool.backends.docker.daemon import Crossed, Daemon
from botpool.backends.docker.places import Container, Kind, Place
from botpool.domain.errors import ContainerGone
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState, DeploymentState, Observation


async def observe(
    daemon: Daemon, container_ids: Sequence[ContainerId]
) -> Mapping[ContainerId, Observation]:
    places = await _places(daemon, container_ids)
    seen: dict[ContainerId, Observation] = {}
    for container_id in container_ids:
        place = places.get(container_id)
        if place is None:
            seen[container_id] = Observation(container_id=container_id, state=ContainerState.GONE)
        else:
            seen[container_id] = await _observe(daemon, place)
    return seen


async def _places(
    daemon: Daemon, container_ids: Sequence[ContainerId]
) -> Mapping[ContainerId, Place]:
    if len(container_ids) != 1:
        return await daemon.places()
    try:
        return {container_ids[0]: await daemon.place(container_ids[0])}
    except ContainerGone:
        return {}


async def _observe(daemon: Daemon, place: Place) -> Observation:
    """What runs counts first, then what may come to run: else a stop were confirmed too early."""
    for each in place.containers:
        if each.is_up:
            return _shown(place, each, ContainerState.RUNNING, f"is {each.state}")
    if place.coming:
        return _coming(place, place.coming[0])
    newest = place.newest
    if newest.kind is Kind.VACANT:
        return Observation(
            container_id=place.id, state=ContainerState.STOPPED, detail="is not started"
        )
    try:
        details = await daemon.details(newest)
    except Crossed:
        return _shown(place, newest, ContainerState.UNKNOWN, "was just replaced")
    return Observation(
        container_id=place.id,
        state=ContainerState.EXITED,
        assignment_id=newest.assignment_id,
        exit_code=details.get("ExitCode"),
        detail=ending(details, memory_mb=newest.spec.memory_mb),
    )


def _shown(place: Place, container: Container, state: ContainerState, detail: str) -> Observation:
    return Observation(
        container_id=place.id, state=state, assignment_id=container.assignment_id, detail=detail
    )


def _coming(place: Place, container: Container) -> Observation:
    is_pulled = container.kind is Kind.PENDING
    return Observation(
        container_id=place.id,
        state=ContainerState.STARTING,
        assignment_id=container.assignment_id,
        deployment=DeploymentState.IN_PROGRESS if is_pulled else None,
        detail="waits for its image" if is_pulled else "is being started",
    )


def ending(details: Mapping[str, Any], *, memory_mb: int) -> str:
    """How a container ended, in words for people."""
    code = details.get("ExitCode")
    if details.get("OOMKilled"):
        return f"ran out of memory ({memory_mb} MB)"
    if said := details.get("Error"):
        return f"ended with an error of Docker: {said}"
    if isinstance(code, int) and code - 128 in signal.valid_signals():
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exited with code {code}"
