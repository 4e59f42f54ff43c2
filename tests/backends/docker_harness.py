"""The conformance harness of the Docker backend: a real daemon behind an interruptible socket."""

import json
import secrets
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

from aiodocker.docker import DockerContainer

from botpool.backends.docker import DockerBackend, DockerConfig, PoolIsolation
from botpool.backends.docker.placeholder_image import IMAGE as PLACEHOLDER_IMAGE
from botpool.backends.docker.slot_containers import ContainerDraft, ContainerKind
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.harness import SPEC, TIMEOUT_S, Capabilities, ProgramRun
from tests.backends.interruptible_socket import InterruptibleSocket
from tests.support.dockerd import Dockerd


class SimulatedKill(BaseException):
    """Simulates the kill of a replica."""


class RunReceiver:
    """Receives the reports of programs in containers."""

    def __init__(self) -> None:
        runs: defaultdict[str, list[ProgramRun]] = defaultdict(list)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                report = self.rfile.read(int(self.headers["Content-Length"]))
                runs[self.path.strip("/")].append(ProgramRun(**json.loads(report)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Suppress the log."""

        self.runs = runs
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class DockerHarness:
    capabilities = Capabilities()

    def __init__(self, dockerd: Dockerd, folder: Path) -> None:
        self.dockerd = dockerd
        self._folder = folder
        self.socket = InterruptibleSocket(folder / "d.sock", dockerd.host.removeprefix("unix://"))
        self._suffix = secrets.token_hex(4)
        self._reports = RunReceiver()
        self._open: list[DockerBackend] = []

    async def open(self) -> None:
        await self.socket.open()

    def config(self, installation: str = "one") -> DockerConfig:
        return DockerConfig(
            installation_id=self.installation(installation),
            folder=self._folder / "docker",
            host=self.socket.host,
            network="host",
            shm_mb=16,
            stop_grace_s=1,
        )

    def installation(self, name: str = "one") -> str:
        """Return an id that separates the tests at the shared daemon."""
        return f"{name}-{self._suffix}"

    async def open_backend(self, installation: str = "one", start_s: float = 0) -> DockerBackend:
        """Open a backend; Docker ignores `start_s`."""
        backend = DockerBackend(self.config(installation))
        await backend.open()
        self._open.append(backend)
        return backend

    async def open_isolated(self, network: str | None = None, **isolation: Any) -> DockerBackend:
        """Open a backend with this isolation of the pool of `SPEC`."""
        pools = {SPEC.pool_name: PoolIsolation(**isolation)}
        backend = DockerBackend(replace(self.config(), network=network, isolation=pools))
        await backend.open()
        self._open.append(backend)
        return backend

    def program_environment(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "REPORT_TO": self._reports.url,
        }

    def runs(self, assignment_id: AssignmentId) -> Sequence[ProgramRun]:
        return self._reports.runs[str(assignment_id)]

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        name = f"{container_id}.{secrets.token_hex(3)}"
        draft = ContainerDraft(
            kind=ContainerKind.PLACEHOLDER, assignment_id=AssignmentId(0), spec=SPEC
        )
        labels = draft.labels(self.installation())
        body = {"Image": PLACEHOLDER_IMAGE, "Cmd": ["x"], "Labels": dict(labels)}
        self.dockerd.call("POST", "/containers/create", body, name=name)
        return ContainerId(name)

    async def crash_during_start(self, request: StartRequest) -> None:
        """Kill the replica after Docker has accepted the start."""
        killed = await self.open_backend()
        start = DockerContainer.start

        async def start_and_die(container: DockerContainer) -> None:
            await start(container)
            raise SimulatedKill

        with mock.patch.object(DockerContainer, "start", start_and_die), suppress(SimulatedKill):
            await killed.start(request, timeout_s=TIMEOUT_S)

    def outage(self) -> AbstractContextManager[None]:
        return self.socket.cut()

    def containers(self, installation: str = "one") -> list[dict[str, object]]:
        return self.dockerd.containers(installation=self.installation(installation))

    async def clear(self) -> None:
        for backend in self._open:
            await backend.close()
        await self.socket.close()
        for installation in ("one", "two"):
            self.dockerd.remove_containers(installation=self.installation(installation))
            self.dockerd.remove_networks(installation=self.installation(installation))
        self._reports.close()
