"""Decides what a Pod, as the API server shows it, means for the run of a bot.

The order matters: an evicted Pod may look like a success, so the condition `DisruptionTarget` comes
first, then the Pod's own reason, then the states of its container. The phase proves nothing: the
garbage collector of Kubernetes sets `Failed` on Pods whose containers run.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botpool.backends.kubernetes import names
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import (
    ContainerState,
    DeploymentState,
    Observation,
    UnreachableNode,
)

Pod = Mapping[str, Any]
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_REJECTED = ("OutOf", "Evicted", "NodeAffinity", "UnexpectedAdmissionError")
_FAULT_REASONS = {
    "Evicted": "the node evicted the Pod",
    "Preempting": "a critical Pod took its place on the node",
    "Terminated": "the node was shut down",
    "NodeShutdown": "the node was shut down",
    "NodeLost": "the node was lost",
    "NodeAffinity": "the node no longer matches the Pod",
    "UnexpectedAdmissionError": "the node rejected the Pod",
}
_DISRUPTIONS = {
    "EvictionByEvictionAPI": "the Pod was evicted, for example by a drain of its node",
    "PreemptionByScheduler": "a Pod of a higher priority took its place",
    "DeletionByTaintManager": "its node was lost or tainted",
    "DeletionByPodGC": "its node no longer exists",
    "TerminationByKubelet": "the node ended the Pod",
}
_WRONG_SETUP = {
    "InvalidImageName": "has an invalid image name",
    "ErrImageNeverPull": "may not pull its image",
    "CreateContainerConfigError": "is configured wrongly",
    "CreateContainerError": "cannot be created",
}
_FAILED_PULLS = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
_NO_SUCH_IMAGE = ("not found", "manifest unknown", "does not exist", "name unknown")
_CREATING = ("ContainerCreating", "PodInitializing", "")
_UNKNOWN_END = "ContainerStatusUnknown"
_LATE_END_S = 30.0
"""How long after its deadline a Pod may need to end while its node is reachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What is known about the node of a Pod whose stop is not confirmed."""

    name: str
    exists: bool = True
    is_out_of_service: bool = False
    """Whether a person or the cloud declared the node dead, with a taint."""
    unreachable_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the decision needs besides the Pod."""

    container_id: ContainerId
    now: datetime
    pull_grace_s: float
    nodes: Mapping[str, Node] | None = None
    """By name. None, or a missing node: Botpool may not read it."""


def uid_of(pod: Pod) -> DeploymentId:
    return DeploymentId(pod["metadata"]["uid"])


def is_gated(pod: Pod) -> bool:
    """Whether the Pod was never allowed to start. Its conditions may lag behind this field."""
    return bool(pod["spec"].get("schedulingGates"))


def is_deleted(pod: Pod) -> bool:
    """Whether the deletion of the Pod has begun."""
    return "deletionTimestamp" in pod["metadata"]


def is_in_call(pod: Pod) -> bool:
    return (pod["metadata"].get("labels") or {}).get(names.IN_CALL_LABEL) == "true"


def node_of(pod: Pod) -> str | None:
    return pod["spec"].get("nodeName") or None


def has_stopped(pod: Pod, node: Node | None = None) -> bool:
    """Whether it is proven that no container of this Pod runs or can still start."""
    if is_deleted(pod) and node_of(pod) is None:
        return True  # The API server refuses every binding of a deleted Pod.
    states = _states(pod)
    if states and all(
        "terminated" in states.get(container["name"], {}) for container in pod["spec"]["containers"]
    ):
        return True
    if not states and _is_rejected(pod):
        return True
    return node is not None and node.is_out_of_service


def needs_node(pod: Pod) -> bool:
    """Whether the state of the node decides about this Pod: it is to end, but has not."""
    is_ending = is_deleted(pod) or pod["status"].get("phase") == "Failed"
    return is_ending and node_of(pod) is not None and not has_stopped(pod)


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def parse_node(node: Mapping[str, Any]) -> Node:
    """Read a Node object. A node is unreachable while its condition Ready is not True."""
    ready = _condition(node, "Ready")
    is_ready = ready.get("status") == "True"
    since = ready.get("lastTransitionTime") or node["metadata"].get("creationTimestamp")
    taints = node.get("spec", {}).get("taints") or []
    return Node(
        name=node["metadata"]["name"],
        is_out_of_service=any(taint.get("key") == OUT_OF_SERVICE for taint in taints),
        unreachable_since=None if is_ready or not since else parse_time(since),
    )


def observe_pod(pod: Pod, context: Context) -> Observation:
    """Return the observation of a Pod."""
    name = node_of(pod)
    node = (context.nodes or {}).get(name) if name else None
    if has_stopped(pod, node):
        return _ended(pod, context)
    if is_deleted(pod) or pod["status"].get("phase") == "Failed":
        return _ending(pod, context, node)
    if name is None:
        return _starting(pod, context, _unscheduled(pod))
    return _scheduled(pod, context)


def _ended(pod: Pod, context: Context) -> Observation:
    terminated = _terminated(pod)
    fault = infrastructure_fault(pod)
    has_code = terminated is not None and terminated.get("reason") != _UNKNOWN_END
    return _observation(
        pod,
        context,
        ContainerState.EXITED,
        fault or _exit_reason(pod, terminated),
        exit_code=terminated.get("exitCode") if terminated and has_code else None,
        deployment=DeploymentState.FINISHED,
        infrastructure_fault=fault,
    )


def _ending(pod: Pod, context: Context, node: Node | None) -> Observation:
    """Observe a Pod that is to end but may still run."""
    fault = infrastructure_fault(pod)
    why = fault or "is being stopped"
    unreachable = _unreachable(pod, node)
    if unreachable is not None:
        gone = "" if node is None or node.exists else ", and its Node object is gone"
        since = f"{unreachable.since:%Y-%m-%dT%H:%M:%SZ}"
        detail = f"is on node {unreachable.name}, unreachable since {since}{gone} ({why})"
        return _observation(
            pod, context, ContainerState.UNKNOWN, detail, unreachable_node=unreachable
        )
    if pod["status"].get("phase") == "Failed" or (node is None and _is_overdue(pod, context)):
        return _observation(pod, context, ContainerState.UNKNOWN, f"{why}, and may still run")
    is_running = "running" in _state(pod)
    return _observation(
        pod, context, ContainerState.RUNNING if is_running else ContainerState.STARTING, why
    )


def _is_overdue(pod: Pod, context: Context) -> bool:
    """Whether the Pod has not ended in time, which a lost node explains best."""
    deadline = parse_time(pod["metadata"]["deletionTimestamp"])
    return context.now - deadline >= timedelta(seconds=_LATE_END_S)


def _unreachable(pod: Pod, node: Node | None) -> UnreachableNode | None:
    if node is None:
        return None
    if node.unreachable_since is not None:
        return UnreachableNode(name=node.name, since=node.unreachable_since)
    if node.exists:
        return None
    disruption = _condition(pod, "DisruptionTarget").get("lastTransitionTime")
    deleted_at = pod["metadata"].get("deletionTimestamp")
    text = disruption or deleted_at or pod["metadata"]["creationTimestamp"]
    return UnreachableNode(name=node.name, since=parse_time(text))


def _unscheduled(pod: Pod) -> str:
    if is_gated(pod):
        return "is created, but not allowed to start yet"
    condition = _condition(pod, "PodScheduled")
    if condition.get("reason") == "Unschedulable":
        return f"waits for a node: {condition.get('message', 'unschedulable')}"
    return "waits for a node"


def _scheduled(pod: Pod, context: Context) -> Observation:
    state = _state(pod)
    if "running" in state:
        return _observation(pod, context, ContainerState.RUNNING, "runs")
    if "waiting" in state:
        return _waiting(pod, context, state["waiting"])
    if pod["status"].get("phase") == "Pending":
        return _starting(pod, context, f"is being created on node {node_of(pod)}")
    # The kubelet was restarted: the container may run.
    detail = f"has the phase {pod['status'].get('phase')} without the state of its container"
    return _observation(pod, context, ContainerState.UNKNOWN, detail)


def _waiting(pod: Pod, context: Context, waiting: Mapping[str, Any]) -> Observation:
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    text = f": {message}" if message else ""
    if wrong := _WRONG_SETUP.get(reason):
        return _observation(pod, context, ContainerState.ERROR, f"{wrong} ({reason}){text}")
    if reason in _FAILED_PULLS:
        missing = any(words in message.lower() for words in _NO_SUCH_IMAGE)
        if missing or _scheduled_for(pod, context) >= timedelta(seconds=context.pull_grace_s):
            detail = f"cannot pull its image ({reason}){text}"
            return _observation(pod, context, ContainerState.ERROR, detail)
        return _starting(pod, context, f"waits for its image ({reason}){text}")
    if reason in _CREATING:
        return _starting(pod, context, f"is being created on node {node_of(pod)}")
    return _starting(pod, context, f"waits ({reason}){text}")


def waiting_reason(pod: Pod) -> str:
    """Return why a scheduled container does not start; empty while it is being created."""
    reason = str(_state(pod).get("waiting", {}).get("reason", ""))
    return "" if reason in _CREATING else reason


def is_wrong_setup(observation: Observation) -> bool:
    """Whether the settings of the pool, and not the run, keep the container from starting."""
    return observation.state is ContainerState.ERROR


def infrastructure_fault(pod: Pod) -> str:
    """Return in words why Kubernetes itself ended the Pod; empty if it did not."""
    disruption = _condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True":
        reason, message = disruption.get("reason", ""), disruption.get("message", "")
        return _with_message(_DISRUPTIONS.get(reason, "Kubernetes ended the Pod"), reason, message)
    reason, message = pod["status"].get("reason", ""), pod["status"].get("message", "")
    if words := _FAULT_REASONS.get(reason):
        return _with_message(words, reason, message)
    if reason.startswith("OutOf"):
        return _with_message("the node had no room for the Pod", reason, message)
    return ""


def _with_message(words: str, reason: str, message: str) -> str:
    message = message.strip()
    return f"{words} ({reason}): {message}" if message else f"{words} ({reason})"


def _exit_reason(pod: Pod, terminated: Mapping[str, Any] | None) -> str:
    """Describe why a container ended."""
    reason = pod["status"].get("reason", "")
    if reason == "DeadlineExceeded":
        return f"was ended by its activeDeadlineSeconds ({reason})"
    if terminated is None:
        return "never started"
    code, why = terminated.get("exitCode"), terminated.get("reason")
    if why == "OOMKilled":
        limits = pod["spec"]["containers"][0].get("resources", {}).get("limits") or {}
        return f"ran out of memory ({limits.get('memory', 'no limit')})"
    if why == _UNKNOWN_END:
        return "was stopped before Kubernetes saw it start"
    if why in ("StartError", "ContainerCannotRun"):
        return f"cannot be started: {terminated.get('message', why)}"
    if isinstance(code, int) and code - 128 in signal.valid_signals():
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exited with code {code}"


def _starting(pod: Pod, context: Context, detail: str) -> Observation:
    return _observation(
        pod, context, ContainerState.STARTING, detail, deployment=DeploymentState.IN_PROGRESS
    )


def _observation(
    pod: Pod, context: Context, state: ContainerState, detail: str, **fields: Any
) -> Observation:
    return Observation(
        container_id=context.container_id,
        state=state,
        assignment_id=run_of(pod),
        deployment_id=uid_of(pod),
        detail=detail,
        **fields,
    )


def run_of(pod: Pod) -> AssignmentId | None:
    return names.run_of(pod)


def _states(pod: Pod) -> Mapping[str, Mapping[str, Any]]:
    return {
        each["name"]: each.get("state") or {}
        for each in pod["status"].get("containerStatuses") or []
    }


def _state(pod: Pod) -> Mapping[str, Any]:
    """Return the state of the Pod's container; a Pod of Botpool has one."""
    return next(iter(_states(pod).values()), {})


def _terminated(pod: Pod) -> Mapping[str, Any] | None:
    terminated: Mapping[str, Any] | None = _state(pod).get("terminated")
    return terminated


def _is_rejected(pod: Pod) -> bool:
    """Whether the kubelet rejected the Pod before it created a container."""
    status = pod["status"]
    reason = str(status.get("reason", ""))
    return status.get("phase") == "Failed" and reason.startswith(_REJECTED)


def _scheduled_for(pod: Pod, context: Context) -> timedelta:
    text = pod["status"].get("startTime")
    return context.now - parse_time(text) if text else timedelta()


def _condition(thing: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for condition in thing.get("status", {}).get("conditions") or []:
        if condition.get("type") == kind:
            found: Mapping[str, Any] = condition
            return found
    return {}
