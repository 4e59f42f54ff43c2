"""Nodes and pods that KWOK simulates on a real API server: they have no containers."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.components import missing
from tests.support.kubernetes.cluster import Cluster, OwnCluster

LABEL = "botpool.dev/simulated"
TAINT = f"{LABEL}=true:NoSchedule"
_ANNOTATION = "kwok.x-k8s.io/node"
_STOP_S = 30


@contextlib.contextmanager
def simulated_nodes(cluster: OwnCluster, count: int) -> Iterator[None]:
    """Add nodes whose pods become Running at once; pods need the node selector and toleration."""
    program = Path(cluster.program("kwok"))
    if not program.exists():
        missing("kwok", "run scripts/build-kubernetes --kwok")
    for number in range(count):
        _create_node(cluster, f"simulated-{number}")
    with (cluster.directory / "kwok.log").open("wb") as log:
        kwok = subprocess.Popen(
            [
                program,
                f"--kubeconfig={cluster.kubeconfig}",
                "--manage-all-nodes=false",
                f"--manage-nodes-with-label-selector={LABEL}=true",
                "--node-lease-duration-seconds=40",
            ],
            stdout=log,
            stderr=log,
            env={"HOME": str(cluster.directory)},
        )
    try:
        yield
    finally:
        kwok.terminate()
        kwok.wait(_STOP_S)


def _create_node(cluster: Cluster, name: str) -> None:
    room = {"cpu": "10k", "memory": "10Ti", "pods": "10k"}
    body = {
        "metadata": {"name": name, "labels": {LABEL: "true"}, "annotations": {_ANNOTATION: "fake"}},
        "spec": {"taints": [{"key": LABEL, "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    }
    cluster.kubectl.request("POST", "/api/v1/nodes", body)
