"""Pods of one-line Python programs, for tests of Kubernetes itself."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.bot_image import PYTHON, archive
from tests.support.kubernetes.cluster import Cluster

PROGRAM_IMAGE = "botpool.test/program:1"
_WAIT_S = 120.0


def import_program_image(cluster: Cluster) -> None:
    cluster.import_image(archive([PROGRAM_IMAGE], [PYTHON, "-c", "print('ran')"], {}))


def create_pod(
    cluster: Cluster,
    namespace: str,
    name: str,
    program: str,
    labels: Mapping[str, str] | None = None,
    cpu: str = "0",
    **spec: Any,
) -> dict[str, Any]:
    """Create a pod that runs a Python program of one line."""
    container = {
        "name": "program",
        "image": PROGRAM_IMAGE,
        "imagePullPolicy": "Never",
        "command": [PYTHON, "-c", program],
        "resources": {"requests": {"cpu": cpu}},
    }
    body = {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }
    pod: dict[str, Any] = cluster.kubectl.request(
        "POST", f"/api/v1/namespaces/{namespace}/pods", body
    )
    return pod


def phase(cluster: Cluster, namespace: str, name: str) -> str | None:
    pod = cluster.pod(namespace, name)
    return pod["status"]["phase"] if pod is not None else None


def wait_until(condition: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < give_up_at, "the condition does not become true"
        time.sleep(0.1)
