"""What each recorded Pod of Kubernetes means for the run of a bot."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.observe import observe_slot
from botpool.backends.kubernetes.pod_state import (
    OUT_OF_SERVICE,
    Context,
    Node,
    has_stopped,
    is_gated,
    needs_node,
    observe_pod,
    parse_node,
    uid_of,
    waiting_reason,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import (
    ContainerState,
    DeploymentState,
    ExpectedRun,
    Observation,
)
from tests.backends.recorded_answers import all_answers, answer

NOW = datetime.fromisoformat("2026-11-17T14:30:00Z")
CONTEXT = Context(container_id=ContainerId("one.slot"), now=NOW, pull_grace_s=300.0)
S = ContainerState


@dataclass(frozen=True, kw_only=True)
class Means:
    """The expected meaning of a Pod."""

    state: ContainerState
    words: str
    """Part of the text for people."""
    fault: bool = False
    exit_code: int | None = None
    waits: bool = False


def ended(words: str, *, code: int | None = None, fault: bool = False) -> Means:
    return Means(state=S.EXITED, words=words, exit_code=code, fault=fault)


PODS = {
    "gated": Means(state=S.STARTING, words="not allowed to start yet", waits=True),
    "unschedulable": Means(state=S.STARTING, words="nodes are available", waits=True),
    "missing-secret-volume": Means(state=S.STARTING, words="being created", waits=True),
    "errimagepull": Means(state=S.ERROR, words="connection refused"),
    "imagepullbackoff": Means(state=S.ERROR, words="connection refused"),
    "invalidimagename": Means(state=S.ERROR, words="invalid image name"),
    "errimageneverpull": Means(state=S.ERROR, words="may not pull"),
    "createcontainerconfigerror": Means(state=S.ERROR, words='secret "no-secret" not found'),
    "createcontainerconfigerror-runasnonroot": Means(state=S.ERROR, words="runAsNonRoot"),
    "running": Means(state=S.RUNNING, words="runs"),
    "node-lost-busy": Means(state=S.RUNNING, words="runs"),
    "exited-0": ended("exited with code 0", code=0),
    "exited-3": ended("exited with code 3", code=3),
    "exited-sigkill": ended("killed by SIGKILL", code=137),
    "terminated-by-sigkill": ended("killed by SIGKILL", code=137),
    "oomkilled": ended("ran out of memory", code=137),
    "start-error-no-such-command": ended("cannot be started", code=128),
    "deadlineexceeded": ended("activeDeadlineSeconds", code=0),
    "finalizer-never-started": ended("before Kubernetes saw it start"),
    "finalizer-after-graceful-delete": ended("exited", code=0),
    "finalizer-force-deleted-kubelet-back": ended("exited", code=0),
    "outofcpu": ended("no room", fault=True),
    "outofpods": ended("no room", fault=True),
    "finalizer-admission-rejected": ended("no room", fault=True),
    "rejected-node-pressure": ended("evicted", fault=True),
    "rejected-after-kubelet-restart": ended("evicted", code=137, fault=True),
    # Only an event shows that these two were evicted.
    "rejected-after-kubelet-restart-exit-0": ended("exited with code 0", code=0),
    "evicted-by-kubelet-exit-0": ended("exited with code 0", code=0),
    "evicted-by-kubelet": ended("exceeds the limit", code=137, fault=True),
    "evicted-node-pressure": ended("low on resource: memory", code=137, fault=True),
    "evicted-node-pressure-exit-0": ended("low on resource: memory", code=0, fault=True),
    "evicted-by-api-last": ended("drain", code=0, fault=True),
    "preempted-last": ended("higher priority", code=0, fault=True),
    "finalizer-after-pod-gc": ended("node no longer exists", code=0, fault=True),
    "evicted-by-api-terminating": Means(state=S.UNKNOWN, words="drain"),
    "preempted-terminating": Means(state=S.UNKNOWN, words="higher priority"),
    "node-lost-terminating": Means(state=S.UNKNOWN, words="being stopped"),
    "node-lost-evicted-by-taint": Means(state=S.UNKNOWN, words="node was lost"),
    "finalizer-force-deleted-kubelet-paused": Means(state=S.UNKNOWN, words="being stopped"),
    "node-object-deleted-pod-gc": Means(state=S.UNKNOWN, words="may still run"),
    "delete-graceful.answer": Means(state=S.UNKNOWN, words="being stopped"),
    "delete-gated.answer": ended("never started"),
}
OTHERS = {"node-unreachable", "selfsubjectrulesreview"}


def test_every_recorded_pod_has_an_expected_meaning() -> None:
    recorded = {
        name
        for name in all_answers()
        if not name.endswith(".status") and not name.startswith("selfsubjectaccessreview")
    }
    assert recorded - OTHERS == set(PODS)


@pytest.mark.parametrize("name", sorted(PODS))
def test_recorded_pod(name: str) -> None:
    expected, observation = PODS[name], observe_pod(answer(name), CONTEXT)
    assert observation.state is expected.state
    assert expected.words in observation.detail
    assert bool(observation.infrastructure_fault) is expected.fault
    assert observation.exit_code == expected.exit_code
    assert (observation.deployment is DeploymentState.IN_PROGRESS) is expected.waits
    assert observation.deployment_id == answer(name)["metadata"]["uid"]


@pytest.mark.parametrize("name", sorted(PODS))
def test_stop_is_confirmed_exactly_for_ended_pods(name: str) -> None:
    assert has_stopped(answer(name)) is (PODS[name].state is S.EXITED)


def test_phase_and_empty_statuses_prove_nothing() -> None:
    pod = answer("exited-0")
    pod["status"]["containerStatuses"] = []
    assert not has_stopped(pod)
    pod["status"]["phase"] = "Running"
    assert observe_pod(pod, CONTEXT).state is S.UNKNOWN
    collected = answer("node-object-deleted-pod-gc")
    assert collected["status"]["phase"] == "Failed"
    assert not has_stopped(collected)


def test_one_container_without_a_status_keeps_the_stop_unconfirmed() -> None:
    pod = answer("exited-0")
    pod["spec"]["containers"].append({"name": "other"})
    assert not has_stopped(pod)


def test_pull_is_retried_for_a_grace_period() -> None:
    pod = answer("imagepullbackoff")
    started = datetime.fromisoformat(pod["status"]["startTime"])
    early = replace(CONTEXT, now=started + timedelta(seconds=299))
    observation = observe_pod(pod, early)
    assert (observation.state, observation.deployment) == (S.STARTING, DeploymentState.IN_PROGRESS)
    assert "connection refused" in observation.detail
    late = replace(CONTEXT, now=started + timedelta(seconds=300))
    assert observe_pod(pod, late).state is S.ERROR


def test_image_that_does_not_exist_fails_at_once() -> None:
    pod = answer("errimagepull")
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    waiting["message"] = 'failed to resolve reference "reg/bot:9": reg/bot:9: not found'
    started = datetime.fromisoformat(pod["status"]["startTime"])
    assert observe_pod(pod, replace(CONTEXT, now=started)).state is S.ERROR


def test_gate_decides_and_not_the_condition_that_lags() -> None:
    pod = answer("gated")
    assert is_gated(pod)
    del pod["spec"]["schedulingGates"]
    assert not is_gated(pod)
    assert "waits for a node" in observe_pod(pod, CONTEXT).detail


def test_deleted_pod_without_a_node_has_stopped() -> None:
    pod = answer("unschedulable")
    assert not has_stopped(pod)
    pod["metadata"]["deletionTimestamp"] = "2026-11-17T14:29:00Z"
    assert has_stopped(pod)


def test_waiting_reasons_that_are_announced() -> None:
    assert waiting_reason(answer("imagepullbackoff")) == "ImagePullBackOff"
    assert waiting_reason(answer("missing-secret-volume")) == ""
    assert waiting_reason(answer("running")) == ""


UNREACHABLE = parse_node(answer("node-unreachable"))


def observe_on(name: str, node: Node) -> Observation:
    pod = answer(name)
    node = replace(node, name=pod["spec"]["nodeName"])
    return observe_pod(pod, replace(CONTEXT, nodes={node.name: node}))


@pytest.mark.parametrize(
    "name",
    [
        "node-lost-terminating",
        "node-lost-evicted-by-taint",
        "finalizer-force-deleted-kubelet-paused",
        "node-object-deleted-pod-gc",
    ],
)
def test_terminating_pod_on_an_unreachable_node_is_unknown(name: str) -> None:
    assert needs_node(answer(name))
    observation = observe_on(name, UNREACHABLE)
    assert observation.state is S.UNKNOWN
    assert observation.unreachable_node is not None
    assert observation.unreachable_node.since == datetime.fromisoformat("2026-11-17T14:09:39Z")
    assert "unreachable since 2026-11-17T14:09:39Z" in observation.detail


def test_terminating_pod_may_run_until_its_deadline() -> None:
    pod = answer("delete-graceful.answer")
    deadline = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
    early = replace(CONTEXT, now=deadline + timedelta(seconds=29))
    assert observe_pod(pod, early).state is S.RUNNING
    ready = Node(name=pod["spec"]["nodeName"])
    assert observe_pod(pod, replace(CONTEXT, nodes={ready.name: ready})).state is S.RUNNING


def test_busy_pod_on_an_unreachable_node_runs() -> None:
    assert not needs_node(answer("node-lost-busy"))
    observation = observe_on("node-lost-busy", UNREACHABLE)
    assert observation.state is S.RUNNING
    assert observation.unreachable_node is None


def test_out_of_service_taint_confirms_the_stop() -> None:
    node = answer("node-unreachable")
    node["spec"]["taints"].append({"key": OUT_OF_SERVICE, "effect": "NoExecute"})
    assert observe_on("node-lost-terminating", parse_node(node)).state is S.EXITED


def test_deleted_node_object_alone_proves_nothing() -> None:
    observation = observe_on("node-object-deleted-pod-gc", Node(name="", exists=False))
    assert observation.state is S.UNKNOWN
    assert observation.unreachable_node is not None
    assert "its Node object is gone" in observation.detail


def test_ready_node_is_reachable() -> None:
    node = answer("node-unreachable")
    for condition in node["status"]["conditions"]:
        condition["status"] = "True"
    assert parse_node(node).unreachable_since is None


def labelled(name: str, run: int) -> dict[str, object]:
    pod = answer(name)
    pod["metadata"]["labels"][names.ASSIGNMENT_LABEL] = str(run)
    return pod


def expecting(run: int, uid: str | None = None) -> ExpectedRun:
    return ExpectedRun(
        assignment_id=AssignmentId(run), deployment_id=DeploymentId(uid) if uid else None
    )


def test_missing_pod_that_was_recorded_is_unknown() -> None:
    assert observe_slot([], expecting(7, "some-uid"), CONTEXT).state is S.UNKNOWN


def test_missing_pod_that_was_never_recorded_is_gone() -> None:
    assert observe_slot([], expecting(7), CONTEXT).state is S.GONE
    assert observe_slot([], None, CONTEXT).state is S.GONE


def test_new_pod_of_the_same_name_is_not_the_recorded_one() -> None:
    pod = labelled("exited-0", 7)
    assert observe_slot([pod], expecting(7, "another-uid"), CONTEXT).state is S.UNKNOWN
    assert observe_slot([pod], expecting(7, uid_of(pod)), CONTEXT).state is S.EXITED


def test_run_that_the_database_lost_comes_first() -> None:
    pods = [labelled("exited-0", 7), labelled("running", 9)]
    observation = observe_slot(pods, expecting(7, uid_of(pods[0])), CONTEXT)
    assert (observation.state, observation.assignment_id) == (S.RUNNING, 9)


def test_abandoned_run_does_not_hide_the_expected_one() -> None:
    pods = [labelled("node-lost-terminating", 6), labelled("exited-0", 7)]
    observation = observe_slot(pods, expecting(7, uid_of(pods[1])), CONTEXT)
    assert (observation.state, observation.assignment_id) == (S.EXITED, 7)


def test_earlier_run_that_has_not_stopped_keeps_the_slot() -> None:
    pods = [labelled("running", 6), labelled("exited-0", 5)]
    assert observe_slot(pods, expecting(7), CONTEXT).state is S.RUNNING
