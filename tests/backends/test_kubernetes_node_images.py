"""Which nodes of a cluster would have to pull an image for the next Pod."""

from typing import Any

import httpx
import pytest

from botpool.backends.kubernetes import KubernetesConfig
from botpool.backends.kubernetes.node_images import Placement, canonical_name, count_cold_nodes
from botpool.backends.kubernetes.pod_template import placement_of
from tests.backends.scripted_kubernetes import ScriptedKubernetes, recorded

IMAGE = "registry.example.org/bots/meet:2"
ANYWHERE = Placement(selector={}, tolerations=[])


def node(*images: str, ready: str = "True", labels: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "images": [{"names": [name]} for name in ("registry.k8s.io/pause:3.10", *images)],
        },
    }


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ("demo", "docker.io/library/demo:latest"),
        ("demo:1", "docker.io/library/demo:1"),
        ("team/demo:1", "docker.io/team/demo:1"),
        ("localhost/demo:1", "localhost/demo:1"),
        ("registry:5000/demo", "registry:5000/demo:latest"),
        (f"demo:1@sha256:{'0' * 64}", f"docker.io/library/demo@sha256:{'0' * 64}"),
        (IMAGE, IMAGE),
    ],
)
def test_names_are_compared_as_nodes_report_them(given: str, reported: str) -> None:
    assert canonical_name(given) == canonical_name(reported) == reported


def test_node_without_the_image_is_cold() -> None:
    nodes = [node(IMAGE), node("registry.example.org/bots/meet:1"), node()]
    assert count_cold_nodes(nodes, ANYWHERE, IMAGE) == 2


@pytest.mark.parametrize(
    "unusable",
    [
        node(ready="False"),
        node(ready="Unknown"),
        node(unschedulable=True),
        node(taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]),
        node(taints=[{"key": "dedicated", "value": "db", "effect": "NoExecute"}]),
    ],
)
def test_node_that_gets_no_pods_is_not_counted(unusable: dict[str, Any]) -> None:
    assert count_cold_nodes([unusable], ANYWHERE, IMAGE) == 0


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "dedicated", "value": "bots", "effect": "NoSchedule"},
    ],
)
def test_node_with_a_tolerated_taint_is_counted(toleration: dict[str, str]) -> None:
    tainted = node(taints=[{"key": "dedicated", "value": "bots", "effect": "NoSchedule"}])
    tolerant = Placement(selector={}, tolerations=[toleration])
    assert count_cold_nodes([tainted], tolerant, IMAGE) == 1
    stranger = Placement(selector={}, tolerations=[{"key": "other", "operator": "Exists"}])
    assert count_cold_nodes([tainted], stranger, IMAGE) == 0


def test_only_nodes_with_the_labels_of_the_pods_count() -> None:
    nodes = [node(labels={"workload": "bots"}), node()]
    config = KubernetesConfig(
        installation_id="one",
        node_selector={"workload": "bots"},
        pod_template={"spec": {"tolerations": [{"operator": "Exists"}]}},
    )
    assert placement_of(config).tolerations == [{"operator": "Exists"}]
    assert count_cold_nodes(nodes, placement_of(config), IMAGE) == 1


def test_node_that_may_not_name_the_image_is_not_counted() -> None:
    """A simulated node names no image, and a kubelet only its 50 largest."""
    silent = node()
    silent["status"]["images"] = []
    crowded = node(*(f"registry.example.org/image:{number}" for number in range(49)))
    assert count_cold_nodes([silent, crowded], ANYWHERE, IMAGE) == 0


def listed(nodes: list[dict[str, Any]]) -> httpx.Response:
    return httpx.Response(200, json={"items": nodes, "metadata": {}})


async def test_images_are_missing_if_more_nodes_lack_them_than_may_pull() -> None:
    server = ScriptedKubernetes()
    four, five = [node()] * 4, [node()] * 5
    backend = server.backend()
    for nodes, missing in ((four, set()), (five, {IMAGE})):
        server.on("GET", "/api/v1/nodes", listed(nodes))
        assert set(await backend.find_missing_images([IMAGE], timeout_s=20)) == missing
    await backend.close()


async def test_without_the_permission_no_image_is_missing() -> None:
    server = ScriptedKubernetes()
    server.on("GET", "/api/v1/nodes", recorded("forbidden-nodes.status"))
    backend = server.backend()
    assert not await backend.find_missing_images([IMAGE], timeout_s=20)
    await backend.close()
