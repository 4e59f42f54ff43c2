"""States and permissions of a real cluster, as the Kubernetes backend sees them."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.backends.kubernetes import KubernetesBackend, names
from botpool.backends.protocol import ContainerSpec, StartRequest
from botpool.domain.errors import BackendRefused, BackendUnavailable
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, ExpectedRun, Observation
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, start_request
from tests.backends.kubernetes_harness import TEMPLATE, KubernetesHarness
from tests.support.kubernetes import Cluster
from tests.support.kubernetes.role import (
    POD_VERBS,
    change_role,
    create_role,
    token,
    write_kubeconfig,
)

RUN = AssignmentId(11)
SMALL = replace(SPEC, cpus=0.1, memory_mb=64)


@pytest.fixture
async def backend(kubernetes_harness: KubernetesHarness) -> AsyncIterator[KubernetesBackend]:
    yield await kubernetes_harness.open_backend()


async def start(
    harness: KubernetesHarness,
    backend: KubernetesBackend,
    spec: ContainerSpec = SMALL,
    behaviour: str = "run",
    run: int = RUN,
) -> StartRequest:
    container_id = names.container_id_of(harness.installation(), spec.name)
    request = start_request(harness, container_id, run, behaviour)
    deployment_id = await backend.prepare(spec, request, timeout_s=TIMEOUT_S)
    request = replace(request, deployment_id=deployment_id)
    await backend.start(request, timeout_s=TIMEOUT_S)
    return request


async def observe(
    backend: KubernetesBackend, request: StartRequest, *, in_call: bool = False
) -> Observation:
    run = ExpectedRun(
        assignment_id=request.assignment_id,
        deployment_id=request.deployment_id,
        is_protected=in_call,
    )
    slot = request.container_id
    return (await backend.observe([slot], expected={slot: run}, timeout_s=TIMEOUT_S))[slot]


async def wait_for(
    backend: KubernetesBackend, request: StartRequest, words: str, *states: ContainerState
) -> Observation:
    """Observe until the text for people contains the words, in one of the states."""
    give_up_at = time.monotonic() + 60
    while True:
        seen = await observe(backend, request)
        if words in seen.detail and seen.state in states:
            return seen
        assert time.monotonic() < give_up_at, seen
        await asyncio.sleep(0.1)


def pod_of(harness: KubernetesHarness, request: StartRequest) -> dict[str, Any] | None:
    name = names.pod_name(harness.installation(), SPEC.name, request.assignment_id)
    return harness.cluster.pod(harness.namespace, name)


async def test_out_of_memory(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    request = await start(kubernetes_harness, backend, behaviour="use-memory")
    ended = await wait_for(backend, request, "ran out of memory (64Mi)", ContainerState.EXITED)
    assert ended.exit_code == 137
    assert not ended.infrastructure_fault


async def test_wrong_image_name_fails_at_once_and_is_named_by_the_check(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    request = await start(kubernetes_harness, backend, replace(SMALL, image="Bad//Name:1"))
    await wait_for(backend, request, "InvalidImageName", ContainerState.ERROR)
    health = await backend.check(timeout_s=TIMEOUT_S)
    assert "pools.teams: the container has an invalid image name" in health.detail


async def test_unreachable_registry_is_tried_for_the_grace_period(
    kubernetes_harness: KubernetesHarness,
) -> None:
    waiting = await kubernetes_harness.open_backend()
    hasty = await kubernetes_harness.open_backend(pull_grace_s=0.0)
    spec = replace(SMALL, image="127.0.0.1:9/bot:1")
    request = await start(kubernetes_harness, waiting, spec)
    await wait_for(waiting, request, "refused", ContainerState.STARTING)
    assert (await observe(hasty, request)).state is ContainerState.ERROR


async def test_missing_secret_is_a_wrong_setup(kubernetes_harness: KubernetesHarness) -> None:
    secret = {"secretKeyRef": {"name": "absent", "key": "k"}}
    container = {"name": "bot", "env": [{"name": "KEY", "valueFrom": secret}]}
    template = {"spec": {**TEMPLATE["spec"], "containers": [container]}}
    backend = await kubernetes_harness.open_backend(pod_template=template)
    request = await start(kubernetes_harness, backend)
    await wait_for(backend, request, 'secret "absent" not found', ContainerState.ERROR)


async def test_unschedulable_pod_waits_with_the_message_of_the_scheduler(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    request = await start(kubernetes_harness, backend, replace(SMALL, cpus=1000))
    await wait_for(backend, request, "Insufficient cpu", ContainerState.STARTING)
    await backend.stop(request.container_id, RUN, timeout_s=TIMEOUT_S)
    # It was never scheduled, so its deletion is the confirmed stop.
    assert (await observe(backend, request)).state is ContainerState.EXITED


async def test_exhausted_quota_is_no_capacity(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    cluster, namespace = kubernetes_harness.cluster, kubernetes_harness.namespace
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    cluster.kubectl.request("POST", path, body)
    await eventually(
        lambda: cluster.kubectl.request("GET", f"{path}/q").get("status", {}).get("hard")
    )
    with pytest.raises(BackendUnavailable, match="exceeded quota"):
        await start(kubernetes_harness, backend)


async def test_default_pod_passes_restricted_pod_security(
    kubernetes_harness: KubernetesHarness,
) -> None:
    cluster, namespace = kubernetes_harness.cluster, kubernetes_harness.namespace
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch = {"metadata": {"labels": labels}}
    merge = "application/merge-patch+json"
    cluster.kubectl.request("PATCH", f"/api/v1/namespaces/{namespace}", patch, merge)
    await start(kubernetes_harness, await kubernetes_harness.open_backend(pod_template={}))
    refused = await kubernetes_harness.open_backend()
    with pytest.raises(BackendRefused, match="violates PodSecurity"):
        await start(kubernetes_harness, refused, run=12)


async def test_eviction_is_an_infrastructure_fault(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    request = await start(kubernetes_harness, backend)
    await eventually(lambda: kubernetes_harness.runs(RUN))
    name = names.pod_name(kubernetes_harness.installation(), SPEC.name, RUN)
    path = f"/api/v1/namespaces/{kubernetes_harness.namespace}/pods/{name}/eviction"
    kubernetes_harness.cluster.kubectl.request("POST", path, {"metadata": {"name": name}})
    ended = await wait_for(backend, request, "evicted", ContainerState.EXITED)
    assert "EvictionByEvictionAPI" in ended.infrastructure_fault


async def test_ended_pod_stays_until_its_end_is_recorded(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    request = await start(kubernetes_harness, backend)
    await eventually(lambda: kubernetes_harness.runs(RUN))
    await backend.stop(request.container_id, RUN, timeout_s=TIMEOUT_S)
    await wait_for(backend, request, "", ContainerState.EXITED)
    assert pod_of(kubernetes_harness, request) is not None
    # Another client's force delete cannot remove it either.
    name = names.pod_name(kubernetes_harness.installation(), SPEC.name, RUN)
    path = f"/api/v1/namespaces/{kubernetes_harness.namespace}/pods/{name}"
    kubernetes_harness.cluster.kubectl.request("DELETE", path, {"gracePeriodSeconds": 0})
    assert (await observe(backend, request)).state is ContainerState.EXITED
    assert request.deployment_id is not None
    backend.discard(request.container_id, RUN, request.deployment_id)
    await eventually(lambda: pod_of(kubernetes_harness, request) is None)
    assert (await observe(backend, request)).state is ContainerState.UNKNOWN


async def test_protection_follows_the_call(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    request = await start(kubernetes_harness, backend)

    def is_marked() -> bool:
        pod = pod_of(kubernetes_harness, request)
        assert pod is not None
        metadata = pod["metadata"]
        label = metadata["labels"].get("botpool.dev/in-call") == "true"
        note = metadata["annotations"].get("karpenter.sh/do-not-disrupt") == "true"
        assert label == note
        return label

    await observe(backend, request, in_call=True)
    await eventually(is_marked)
    await observe(backend, request, in_call=False)
    await eventually(lambda: not is_marked())


async def test_nodes_name_the_images_that_they_lack(
    kubernetes_harness: KubernetesHarness,
) -> None:
    """The kubelet reports an image up to some ten seconds after it is there."""
    backend = await kubernetes_harness.open_backend(concurrent_pulls=0)
    present, absent = SPEC.image, "registry.example.org/absent:1"

    async def missing() -> set[str]:
        return set(await backend.find_missing_images([present, absent], timeout_s=TIMEOUT_S))

    give_up_at = time.monotonic() + 120
    while await missing() != {absent}:
        assert time.monotonic() < give_up_at
        await asyncio.sleep(1)


async def test_watch_announces_the_end_of_a_run(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    changes = backend.changes()
    first: asyncio.Future[ContainerId] = asyncio.ensure_future(anext(changes))
    # The watch begins some time after the call, so runs end until one is announced.
    for run in range(20, 60):
        request = await start(kubernetes_harness, backend, behaviour="exit 3", run=run)
        await wait_for(backend, request, "exited with code 3", ContainerState.EXITED)
        if (await asyncio.wait([first], timeout=1))[0]:
            break
    assert await first == request.container_id


async def test_documented_role_suffices_and_each_missing_verb_is_named(
    kubernetes_harness: KubernetesHarness, tmp_path: Path
) -> None:
    cluster, namespace = kubernetes_harness.cluster, kubernetes_harness.namespace
    create_role(cluster, namespace)
    kubeconfig = write_kubeconfig(cluster, namespace, tmp_path)
    backend = await kubernetes_harness.open_backend(kubeconfig=kubeconfig, namespace=None)

    request = await start(kubernetes_harness, backend, behaviour="print 3")
    await wait_for(backend, request, "runs", ContainerState.RUNNING)
    # A container runs before its program has written its first line.
    await eventually(lambda: kubernetes_harness.runs(RUN))
    assert [each.name for each in await backend.list_owned(timeout_s=TIMEOUT_S)] == [SPEC.name]
    assert await anext(aiter(backend.logs(request.container_id, RUN, tail=1, follow=False)), b"")
    await backend.stop(request.container_id, RUN, timeout_s=TIMEOUT_S)
    await wait_for(backend, request, "", ContainerState.EXITED)
    assert request.deployment_id is not None
    backend.discard(request.container_id, RUN, request.deployment_id)
    await eventually(lambda: pod_of(kubernetes_harness, request) is None)
    health = await backend.check(timeout_s=TIMEOUT_S)
    assert health.ok
    assert "get nodes" in health.weakness
    assert "list nodes" in health.weakness
    assert not await backend.find_missing_images(["absent:1"], timeout_s=TIMEOUT_S)

    for missing in POD_VERBS:
        change_role(cluster, namespace, [v for v in POD_VERBS if v != missing], ["get"])
        await assert_missing(kubernetes_harness, kubeconfig, f"{missing} pods")
    change_role(cluster, namespace, POD_VERBS, [])
    await assert_missing(kubernetes_harness, kubeconfig, "get pods/log")


async def assert_missing(harness: KubernetesHarness, kubeconfig: Path, named: str) -> None:
    """Wait until the change of the Role has arrived, and the check names exactly this verb."""
    backend = await harness.open_backend(kubeconfig=kubeconfig, namespace=None)
    give_up_at = time.monotonic() + TIMEOUT_S
    while f"{harness.namespace}: {named}. " not in (
        detail := (await backend.check(timeout_s=TIMEOUT_S)).detail
    ):
        assert time.monotonic() < give_up_at, detail
        backend = await harness.open_backend(kubeconfig=kubeconfig, namespace=None)


async def test_rotated_token_is_read_again(
    kubernetes_harness: KubernetesHarness, tmp_path: Path
) -> None:
    cluster, namespace = kubernetes_harness.cluster, kubernetes_harness.namespace
    create_role(cluster, namespace)
    kubeconfig = write_kubeconfig(cluster, namespace, tmp_path)
    (tmp_path / "token").write_text("expired")
    backend = await kubernetes_harness.open_backend(kubeconfig=kubeconfig, namespace=None)
    with pytest.raises(BackendRefused, match="401"):
        await backend.list_owned(timeout_s=TIMEOUT_S)
    (tmp_path / "token").write_text(token(cluster, namespace))
    assert await backend.list_owned(timeout_s=TIMEOUT_S) == []


async def test_cleanup_removes_what_a_late_create_left(
    kubernetes_harness: KubernetesHarness, backend: KubernetesBackend
) -> None:
    container_id = names.container_id_of(kubernetes_harness.installation(), SPEC.name)
    request = start_request(kubernetes_harness, container_id, RUN)
    await backend.prepare(SMALL, request, timeout_s=TIMEOUT_S)

    async def none() -> set[DeploymentId]:
        return set()

    assert not await backend.discard_unknown(none, min_age_s=600, timeout_s=TIMEOUT_S)
    assert await backend.discard_unknown(none, min_age_s=0, timeout_s=TIMEOUT_S) == 1
    assert not kubernetes_harness.cluster.pods(kubernetes_harness.namespace)
    assert not kubernetes_harness.runs(RUN)
    assert isinstance(kubernetes_harness.cluster, Cluster)
