"""Ends the Pods of a slot. Each deletion names the uid of the Pod that was read."""

from collections.abc import Sequence
from contextlib import suppress

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.api import Api, Replaced
from botpool.backends.kubernetes.observe import read_nodes
from botpool.backends.kubernetes.pod_state import (
    Pod,
    has_stopped,
    is_deleted,
    node_of,
    uid_of,
)
from botpool.backends.protocol import ContainerSpec, StopMode
from botpool.domain.errors import CallSuperseded, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId

_SHORT_GRACE_S = 5
_KILL_GRACE_S = 1
"""Kubernetes has no way to kill at once that also waits for the container's end."""


async def stop(api: Api, slot: str, through: AssignmentId, mode: StopMode) -> None:
    """Delete the Pods up to the assignment that have not ended. May return before their end.

    The grace of the first deletion is final: the kubelet does not shorten a stop that has begun.
    """
    own = await api.read_pod(names.pod_name(api.installation_id, slot, through))
    pods = [own] if own is not None and api.is_ours(own) else await api.list_pods(slot)
    for pod in pods:
        if is_through(pod, through) and not has_stopped(pod):
            await _delete(api, pod, mode)


async def stop_all(
    api: Api,
    container_id: ContainerId,
    pods: Sequence[Pod],
    spec: ContainerSpec,
    through: AssignmentId,
) -> Sequence[Pod]:
    """End the Pods of a slot and return them once all have stopped: `StillRunning` before."""
    running = [pod for pod in pods if not has_stopped(pod)]
    require_through(container_id, running, through)
    ended = [pod for pod in pods if has_stopped(pod)]
    for pod in running:
        after = await _delete(api, pod, StopMode.ASK_THEN_KILL)
        if after is not None and has_stopped(after):
            ended.append(after)
        elif not is_through(pod, spec.abandoned_through):
            raise StillRunning(f"the Pod {pod['metadata']['name']} has not stopped yet")
    return ended


async def remove_all(api: Api, container_id: ContainerId, slot: str, through: AssignmentId) -> None:
    """Remove every Pod of the slot. Raises `StillRunning` until their stop is confirmed."""
    pods = await api.list_pods(slot)
    require_through(container_id, pods, through)
    waiting = [pod for pod in pods if not await discard(api, pod)]
    if waiting:
        raise StillRunning(f"the Pod {waiting[0]['metadata']['name']} has not stopped yet")


async def discard(api: Api, pod: Pod) -> bool:
    """Delete a Pod, and remove our finalizer once its stop is confirmed; False until then."""
    after = pod
    if not is_deleted(pod):
        deleted = await _delete(api, pod, StopMode.ASK_THEN_KILL)
        if deleted is None:
            return has_stopped(pod)
        after = deleted
    if not has_stopped(after) and not await _is_on_dead_node(api, after):
        return False
    finalizers = after["metadata"].get("finalizers") or []
    if names.STOP_FINALIZER in finalizers:
        others = [each for each in finalizers if each != names.STOP_FINALIZER]
        patch = {"metadata": {"finalizers": others or None}}
        with suppress(Replaced):  # Another replica has removed it.
            await api.patch_pod(after["metadata"]["name"], uid_of(after), patch)
    return True


async def _is_on_dead_node(api: Api, pod: Pod) -> bool:
    node = (await read_nodes(api, [pod])).get(node_of(pod) or "")
    return node is not None and has_stopped(pod, node)


async def _delete(api: Api, pod: Pod, mode: StopMode) -> Pod | None:
    """Delete a Pod; returns it as it is then, or None if it is gone."""
    grace_s = int(pod["spec"].get("terminationGracePeriodSeconds", _SHORT_GRACE_S))
    if mode is not StopMode.ASK:
        grace_s = min(grace_s, _KILL_GRACE_S if mode is StopMode.KILL else _SHORT_GRACE_S)
    try:
        return await api.delete_pod(pod["metadata"]["name"], uid_of(pod), grace_s=grace_s)
    except Replaced:
        return None


def is_through(pod: Pod, through: AssignmentId) -> bool:
    run = names.run_of(pod)
    return run is not None and run <= through


def require_through(container_id: ContainerId, pods: Sequence[Pod], through: AssignmentId) -> None:
    """Raise CallSuperseded if a Pod is of a later assignment."""
    later = [run for pod in pods if (run := names.run_of(pod)) is not None and run > through]
    if later:
        raise CallSuperseded(container_id, f"assignment {max(later)} came after {through}")
