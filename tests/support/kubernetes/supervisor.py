"""The process that runs one cluster: the first process of its own process and mount namespaces.

All processes of the cluster end with this one, whatever happens to it, and so do their mounts. Each
test process that uses the cluster holds a connection to `DIRECTORY/socket`; after the last one, the
supervisor stops the cluster. A connection sends one JSON request per line and gets one response.

    unshare --mount --pid --fork --kill-child --mount-proc \\
        python -m tests.support.kubernetes.supervisor DIRECTORY
"""

import contextlib
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.bot_image import plain_archive
from tests.support.kubernetes.certificates import MOST_NODES
from tests.support.kubernetes.child_processes import reap
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.network import Network, write_json
from tests.support.kubernetes.node import PAUSE_IMAGE, Node
from tests.support.kubernetes.programs import CannotRun, Programs

_KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""The kubelet changes these; the supervisor restores them."""

FIRST_NODE = 1


class Supervisor:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._programs = Programs.find()
        self._network = Network.create()
        self._lock = threading.RLock()
        self._nodes: dict[str, Node] = {}
        self._numbers = iter(range(FIRST_NODE, MOST_NODES + 1))
        self._images: list[Path] = []
        self._plane: ControlPlane | None = None

    def start(self) -> None:
        _mount_own_directories(self.directory)
        self._plane = ControlPlane(self.directory, self._programs, self._network)
        self._plane.start()
        busybox = Path(self._programs.path("busybox"))
        command = ["/bin/busybox", "sleep", "2147483647"]
        archive = plain_archive([PAUSE_IMAGE], command, {"/bin/busybox": busybox})
        (self.directory / "pause.tar").write_bytes(archive)
        self.add_node({}, [])

    def description(self) -> Mapping[str, str]:
        assert self._plane is not None
        return {
            "kubeconfig": str(self._plane.certificates.kubeconfig("admin")),
            "host_address": self._network.gateway,
            "bridge": self._network.bridge,
            "programs": str(self._programs.built),
        }

    def add_node(self, labels: Mapping[str, str], taints: list[Mapping[str, str]]) -> str:
        assert self._plane is not None
        with self._lock:
            number = next(self._numbers)
            images = list(self._images)
        node = Node(
            number,
            self.directory,
            self._programs,
            self._network,
            self._plane.certificates,
            labels,
            taints,
        )
        node.start(self.directory / "pause.tar")
        for archive in images:
            node.import_image(archive)
        with self._lock:
            self._nodes[node.name] = node
        return node.name

    def remove_node(self, node: str) -> None:
        with self._lock:
            removed = self._nodes.pop(node, None)
        if removed is not None:
            removed.stop()

    def import_image(self, archive: str) -> None:
        """Import an image into all nodes, also later ones; a repeat changes nothing."""
        with self._lock:
            if Path(archive) in self._images:
                return
            for node in self._nodes.values():
                node.import_image(Path(archive))
            self._images.append(Path(archive))

    def pause_kubelet(self, node: str) -> None:
        self._nodes[node].kubelet.send(signal.SIGSTOP)

    def resume_kubelet(self, node: str) -> None:
        self._nodes[node].kubelet.send(signal.SIGCONT)

    def restart_kubelet(self, node: str) -> None:
        self._nodes[node].kubelet.stop(signal.SIGKILL)
        self._nodes[node].kubelet.start()

    def running_containers(self, node: str) -> list[Mapping[str, Any]]:
        return self._nodes[node].running_containers()

    def stop_api_server(self) -> None:
        assert self._plane is not None
        self._plane.api_server.stop(signal.SIGKILL)

    def start_api_server(self) -> None:
        assert self._plane is not None
        self._plane.start_api_server()

    def stop(self) -> None:
        for name in list(self._nodes):
            self.remove_node(name)
        if self._plane is not None:
            self._plane.stop()
        self._network.remove()
        for folder in Path("/sys/fs/cgroup").glob("*/k8s.io"):
            with contextlib.suppress(OSError):  # another cluster uses it
                folder.rmdir()

    def child_pids(self) -> frozenset[int]:
        children = [child for node in self._nodes.values() for child in node.children]
        if self._plane is not None:
            children += self._plane.children
        return frozenset(child.pid for child in children if child.pid is not None)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._guard = threading.Lock()
        self._connections = 0
        self._is_closing = False
        self.unused = threading.Event()
        self.stopped = threading.Event()
        self.answered = threading.Event()
        super().__init__(str(supervisor.directory / "socket"), _Connection)

    def enter(self) -> bool:
        with self._guard:
            self._connections += not self._is_closing
            return not self._is_closing

    def leave(self) -> bool:
        """Count a connection less, and say whether it was the last one."""
        with self._guard:
            self._connections -= 1
            self._is_closing = self._connections == 0
        if self._is_closing:
            self.unused.set()
        return self._is_closing


class _Connection(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        if not self.server.enter():
            return
        self._nodes: set[str] = set()
        self._respond({"ok": self.server.supervisor.description()})
        for line in self.rfile:
            if not self._run(json.loads(line)):
                break
        for node in self._nodes:
            self.server.supervisor.remove_node(node)
        if self.server.leave():
            self.server.stopped.wait()
            self._respond({"ok": "stopped"})
            self.server.answered.set()

    def _run(self, request: Mapping[str, Any]) -> bool:
        """Run one request; false ends the connection."""
        if request["do"] == "bye":
            return False
        call: Callable[..., Any] = getattr(self.server.supervisor, request["do"])
        try:
            result = call(**request["with"])
        except Exception as error:
            self._respond({"error": f"{type(error).__name__}: {error}"})
            return True
        if request["do"] == "add_node":
            self._nodes.add(result)
        self._respond({"ok": result})
        return True

    def _respond(self, response: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the client may be gone
            self.wfile.write(json.dumps(response).encode() + b"\n")
            self.wfile.flush()


def _mount_own_directories(directory: Path) -> None:
    """Hide directories of the machine that a node would fill; keep etcd's data in memory."""
    (directory / "etcd").mkdir(mode=0o700)
    needed = [directory, Path(__file__), Path(sys.prefix), Path(sys.base_prefix)]
    for path in (Path("/run"), Path("/var/log"), Path("/var/lib"), directory / "etcd"):
        if not any(each.is_relative_to(path) for each in needed):
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(path)], check=True)


def _remove(directory: Path) -> None:
    """Remove the directory with its mounts, also for a client that was killed."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in reversed([each for each in mounts if each.startswith(f"{directory}/")]):
        subprocess.run(["umount", "--lazy", mount], check=False)
    shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    directory = Path(sys.argv[1])
    settings = {name: Path("/proc/sys", name) for name in _KERNEL_SETTINGS}
    before = {path: path.read_text() for path in settings.values() if path.exists()}
    supervisor = server = None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        supervisor = Supervisor(directory)
        supervisor.start()
        server = _Server(supervisor)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write_json(directory / "state.json", {"ready": True})
        while not server.unused.wait(1.0):
            reap(supervisor.child_pids())
    except CannotRun as reason:
        write_json(directory / "state.json", {"ready": False, "reason": str(reason)})
    finally:
        if supervisor is not None:
            supervisor.stop()
        for path, value in before.items():
            if path.read_text() != value:
                path.write_text(value)
        if server is not None:
            server.stopped.set()
            server.answered.wait(5)
            _remove(directory)


if __name__ == "__main__":
    os.chdir("/")
    main()
