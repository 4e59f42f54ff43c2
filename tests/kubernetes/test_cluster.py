"""The tests' own Kubernetes: pods run, a node can be lost, and nothing remains."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.components import missing
from tests.support.kubernetes import Cluster, OwnCluster, own_cluster
from tests.support.kubernetes.pods import create_pod, import_program_image, phase, wait_until


@pytest.fixture(scope="module")
def cluster(kubernetes: Cluster) -> Cluster:
    import_program_image(kubernetes)
    return kubernetes


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


def test_pod_runs_and_has_a_log(cluster: Cluster, namespace: str) -> None:
    create_pod(cluster, namespace, "greeting", "print('good morning')")
    wait_until(lambda: phase(cluster, namespace, "greeting") == "Succeeded")
    log = cluster.kubectl.request("GET", f"/api/v1/namespaces/{namespace}/pods/greeting/log")
    assert log == "good morning\n"


def test_deleted_pod_is_gone(cluster: Cluster, namespace: str) -> None:
    create_pod(cluster, namespace, "waiting", "import signal; signal.pause()", hostNetwork=True)
    wait_until(lambda: phase(cluster, namespace, "waiting") == "Running")
    grace = {"gracePeriodSeconds": 1}
    cluster.kubectl.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/waiting", grace)
    wait_until(lambda: cluster.pod(namespace, "waiting") is None)


def test_pod_on_the_pod_network_reaches_this_machine(cluster: Cluster, namespace: str) -> None:
    with _listener(cluster.host_address) as (port, paths):
        program = (
            f"import urllib.request as r; r.urlopen('http://{cluster.host_address}:{port}/hi')"
        )
        create_pod(cluster, namespace, "caller", program)
        wait_until(lambda: paths == ["/hi"])


def test_lost_node_keeps_its_containers(cluster: Cluster, namespace: str) -> None:
    with cluster.node() as node:
        create_pod(
            cluster,
            namespace,
            "lost",
            "import signal; signal.pause()",
            hostNetwork=True,
            nodeSelector=node.selector,
            tolerations=[*node.tolerations, {"operator": "Exists", "effect": "NoExecute"}],
        )
        wait_until(lambda: phase(cluster, namespace, "lost") == "Running")
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        assert [each["pod"] for each in node.running_containers(namespace)] == ["lost"]
        node.resume_kubelet()
        node.wait_for_status("True")


def test_own_cluster_leaves_nothing_behind() -> None:
    with own_cluster() as cluster:
        import_program_image(cluster)
        with cluster.namespace() as namespace:
            create_pod(cluster, namespace, "left", "import signal; signal.pause()")
            wait_until(lambda: phase(cluster, namespace, "left") == "Running")
            _restart_api_server(cluster, namespace)
        directory = str(cluster.directory)
        assert _processes_of(directory)
    assert not _processes_of(directory)
    assert not Path(directory).exists()
    assert not [mount for mount in _mounts() if mount.startswith(directory)]
    assert cluster.bridge not in _links()


def test_killed_client_leaves_nothing_behind(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.support.kubernetes", str(tmp_path)]
    own = {name: value for name, value in os.environ.items() if "BOTPOOL_TEST" not in name}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=own) as client:
        assert client.stdout is not None
        if not client.stdout.readline():
            missing("a Kubernetes cluster", "this machine cannot start one")
        directory = Path((tmp_path / "kubernetes").read_text())
        assert _processes_of(str(directory))
        client.kill()
    wait_until(lambda: not directory.exists() and not _processes_of(str(directory)))


def _restart_api_server(cluster: OwnCluster, namespace: str) -> None:
    cluster.stop_api_server()
    with pytest.raises(httpx.TransportError):
        cluster.kubectl.request("GET", "/readyz")
    cluster.start_api_server()
    assert phase(cluster, namespace, "left") == "Running"


@contextmanager
def _listener(address: str) -> Iterator[tuple[int, list[str]]]:
    """Listen on that address, and return the port and the paths of requests."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], paths
        server.shutdown()


def _mounts() -> set[str]:
    return {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}


def _links() -> set[str]:
    return {each.name for each in Path("/sys/class/net").iterdir()}


def _processes_of(directory: str) -> list[str]:
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [" ".join(words) for words in commands if any(directory in word for word in words)]
