"""Observes many slots with one list request, plus one request for each container that has ended.

A caller that observes a single slot reacts to an event or a stop and gets the current state.
"""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from botpool.backends.docker.daemon import ConcurrentChange, Daemon
from botpool.backends.docker.slot_containers import Container, ContainerKind, SlotContainers
from botpool.domain.errors import ContainerGone
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState, DeploymentState, Observation


async def observe(
    daemon: Daemon, container_ids: Sequence[ContainerId]
) -> Mapping[ContainerId, Observation]:
    slots = await _read_slots(daemon, container_ids)
    observations: dict[ContainerId, Observation] = {}
    for container_id in container_ids:
        if slot := slots.get(container_id):
            observations[container_id] = await _observe_slot(daemon, slot)
        else:
            gone = Observation(container_id=container_id, state=ContainerState.GONE)
            observations[container_id] = gone
    return observations


async def _read_slots(
    daemon: Daemon, container_ids: Sequence[ContainerId]
) -> Mapping[ContainerId, SlotContainers]:
    if len(container_ids) != 1:
        return await daemon.list_slots()
    try:
        return {container_ids[0]: await daemon.read_slot(container_ids[0])}
    except ContainerGone:
        return {}


async def _observe_slot(daemon: Daemon, slot: SlotContainers) -> Observation:
    """Report running containers first, then starting ones, so that no stop is confirmed early."""
    for container in slot.containers:
        if container.is_running:
            return _observation(slot, container, ContainerState.RUNNING, f"is {container.state}")
    if slot.starting:
        return _starting(slot, slot.starting[0])
    newest = slot.newest
    if newest.kind is ContainerKind.PLACEHOLDER:
        return Observation(
            container_id=slot.id, state=ContainerState.STOPPED, detail="is not started"
        )
    try:
        details = await daemon.container_state(newest)
    except ConcurrentChange:
        return _observation(slot, newest, ContainerState.UNKNOWN, "was just replaced")
    return Observation(
        container_id=slot.id,
        state=ContainerState.EXITED,
        assignment_id=newest.assignment_id,
        exit_code=details.get("ExitCode"),
        detail=exit_reason(details, memory_mb=newest.spec.memory_mb),
    )


def _observation(
    slot: SlotContainers, container: Container, state: ContainerState, detail: str
) -> Observation:
    return Observation(
        container_id=slot.id, state=state, assignment_id=container.assignment_id, detail=detail
    )


def _starting(slot: SlotContainers, container: Container) -> Observation:
    is_pulling = container.kind is ContainerKind.PENDING
    return Observation(
        container_id=slot.id,
        state=ContainerState.STARTING,
        assignment_id=container.assignment_id,
        deployment=DeploymentState.IN_PROGRESS if is_pulling else None,
        detail="waits for its image" if is_pulling else "is starting",
    )


def exit_reason(state: Mapping[str, Any], *, memory_mb: int) -> str:
    """Describe why a container ended."""
    code = state.get("ExitCode")
    if state.get("OOMKilled"):
        return f"ran out of memory ({memory_mb} MB)"
    if message := state.get("Error"):
        return f"ended with an error of Docker: {message}"
    if isinstance(code, int) and code - 128 in signal.valid_signals():
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exited with code {code}"
