"""A Kubernetes cluster as tests see it."""

import contextlib
import hashlib
import json
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kubernetes.client import ApiError, Kubectl

TEST_NODE = "botpool.dev/test-node"
"""The label and taint of a node that belongs to one test."""
_WAIT_S = 120.0


class Cluster:
    """What every cluster has, also one that a person provides."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    @property
    def kubeconfig(self) -> Path:
        return self.kubectl.kubeconfig

    @contextlib.contextmanager
    def namespace(self, prefix: str = "botpool") -> Iterator[str]:
        """Create a namespace in which pods can be created, and delete it with all its pods."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        body = {"metadata": {"name": name}}
        self.kubectl.request("POST", "/api/v1/namespaces", body)
        try:
            self._wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default")
            self._wait_for(f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt")
            yield name
        finally:
            self.clear(name)
            self.kubectl.request("DELETE", f"/api/v1/namespaces/{name}")

    def pods(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        query = f"?labelSelector={selector}" if selector else ""
        found = self.kubectl.request("GET", f"/api/v1/namespaces/{namespace}/pods{query}")
        items: list[dict[str, Any]] = found["items"]
        return items

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a pod, or None if there is none of that name."""
        try:
            found: dict[str, Any] = self.kubectl.request(
                "GET", f"/api/v1/namespaces/{namespace}/pods/{name}"
            )
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return found

    def clear(self, namespace: str) -> None:
        """Delete all pods of a namespace, without their finalizers, so that it can end."""
        for pod in self.pods(namespace):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
            with contextlib.suppress(ApiError):
                if pod["metadata"].get("finalizers"):
                    merge = "application/merge-patch+json"
                    self.kubectl.request("PATCH", path, {"metadata": {"finalizers": None}}, merge)
                self.kubectl.request("DELETE", path, {"gracePeriodSeconds": 1})

    def import_image(self, archive: bytes) -> None:
        """Put an image, in the format of `docker save`, on every node."""
        raise NotImplementedError

    @property
    def host_address(self) -> str:
        """The address of this machine for pods; those with `hostNetwork` also have 127.0.0.1."""
        raise NotImplementedError

    @contextlib.contextmanager
    def node(self) -> Iterator["TestNode"]:
        """Add a node for one test. Pods need its toleration and its node selector."""
        raise NotImplementedError
        yield

    def program(self, name: str) -> str:
        """Return the path of helm or kwok."""
        raise NotImplementedError

    def _wait_for(self, path: str) -> Any:
        give_up_at = time.monotonic() + _WAIT_S
        while True:
            try:
                return self.kubectl.request("GET", path)
            except ApiError as error:
                if error.status != 404 or time.monotonic() > give_up_at:
                    raise
            time.sleep(0.05)


class OwnCluster(Cluster):
    """A cluster that a supervisor of ours runs, through one connection to it."""

    def __init__(self, directory: Path, connection: socket.socket) -> None:
        self.directory = directory
        self._connection = connection
        self._stream = connection.makefile("rw")
        self._description = self._response()
        super().__init__(
            Kubectl(
                self.program("kubectl"),
                Path(self._description["kubeconfig"]),
                directory / "kubectl-cache",
            )
        )

    def program(self, name: str) -> str:
        return f"{self._description['programs']}/{name}"

    @property
    def bridge(self) -> str:
        """The network interface of the cluster on this machine."""
        name: str = self._description["bridge"]
        return name

    @property
    def host_address(self) -> str:
        address: str = self._description["host_address"]
        return address

    def import_image(self, archive: bytes) -> None:
        path = self.directory / "images" / f"{hashlib.sha256(archive).hexdigest()}.tar"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            written = path.with_suffix(f".{secrets.token_hex(4)}")
            written.write_bytes(archive)
            written.rename(path)
        self.call("import_image", archive=str(path))

    @contextlib.contextmanager
    def node(self) -> Iterator["TestNode"]:
        purpose = secrets.token_hex(4)
        taint = {"key": TEST_NODE, "value": purpose, "effect": "NoSchedule"}
        name = self.call("add_node", labels={TEST_NODE: purpose}, taints=[taint])
        node = TestNode(cluster=self, name=name, purpose=purpose)
        try:
            node.wait_until_ready()
            yield node
        finally:
            self.call("remove_node", node=name)
            with contextlib.suppress(ApiError):
                self.kubectl.request("DELETE", f"/api/v1/nodes/{name}")

    def wait_until_ready(self) -> None:
        """Wait for the first node."""
        TestNode(cluster=self, name="node-1", purpose="").wait_until_ready()

    def stop_api_server(self) -> None:
        """Kill the API server. Only for a test's own cluster: others share this one."""
        self.call("stop_api_server")

    def start_api_server(self) -> None:
        self.call("start_api_server")

    def call(self, request: str, **arguments: Any) -> Any:
        self._stream.write(json.dumps({"do": request, "with": arguments}) + "\n")
        self._stream.flush()
        return self._response()

    def close(self) -> bool:
        """End the connection. The last one waits until the cluster is gone, and returns true."""
        self.kubectl.close()
        self._stream.write(json.dumps({"do": "bye", "with": {}}) + "\n")
        self._stream.flush()
        is_last = self._stream.read() != ""
        self._stream.close()
        self._connection.close()
        return is_last

    def _response(self) -> Any:
        line = self._stream.readline()
        if not line:
            raise ConnectionError("the cluster has ended")
        response = json.loads(line)
        assert "ok" in response, response["error"]
        return response["ok"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestNode:
    """A node that a test may lose."""

    __test__ = False

    cluster: OwnCluster
    name: str
    purpose: str

    @property
    def selector(self) -> Mapping[str, str]:
        return {TEST_NODE: self.purpose}

    @property
    def tolerations(self) -> Sequence[Mapping[str, str]]:
        return [{"key": TEST_NODE, "value": self.purpose, "effect": "NoSchedule"}]

    def pause_kubelet(self) -> None:
        """Stop the kubelet's reports; the containers run on."""
        self.cluster.call("pause_kubelet", node=self.name)

    def resume_kubelet(self) -> None:
        self.cluster.call("resume_kubelet", node=self.name)

    def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again, for example after a delete of its Node."""
        self.cluster.call("restart_kubelet", node=self.name)

    def running_containers(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return what containerd runs: `id`, `pod`, `uid`, `namespace` and `container` of each."""
        found = self.cluster.call("running_containers", node=self.name)
        return [each for each in found if namespace in (None, each["namespace"])]

    def ready_status(self) -> str:
        """Return the status of the condition `Ready`: True, False or Unknown."""
        node = self.cluster.kubectl.request("GET", f"/api/v1/nodes/{self.name}")
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        status: str = conditions.get("Ready", "Unknown")
        return status

    def wait_until_ready(self) -> None:
        self.wait_for_status("True")

    def wait_for_status(self, *statuses: str) -> None:
        give_up_at = time.monotonic() + _WAIT_S
        while True:
            with contextlib.suppress(ApiError):
                if self.ready_status() in statuses:
                    return
            assert time.monotonic() < give_up_at, f"{self.name} does not become {statuses}"
            time.sleep(0.1)
