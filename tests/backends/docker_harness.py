"""The conformance suite's view of Docker: a real daemon, and a line to it that can be cut."""

import json
import secrets
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

from aiodocker.docker import DockerContainer

from botpool.backends.docker import DockerBackend, DockerConfig
from botpool.backends.docker.places import Draft, Kind
from botpool.backends.docker.vacancy import IMAGE as VACANT
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.docker_line import Line
from tests.backends.harness import SPEC, TIMEOUT_S, Traits, Witness
from tests.support.dockerd import Dockerd


class Killed(BaseException):
    """The control plane ends here."""


class Witnesses:
    """Hears what programs in containers saw."""

    def __init__(self) -> None:
        heard: defaultdict[str, list[Witness]] = defaultdict(list)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said = self.rfile.read(int(self.headers["Content-Length"]))
                heard[self.path.strip("/")].append(Witness(**json.loads(said)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self.heard = heard
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class DockerHarness:
    traits = Traits()

    def __init__(self, dockerd: Dockerd, folder: Path) -> None:
        self.dockerd = dockerd
        self._folder = folder
        self.line = Line(folder / "d.sock", dockerd.host.removeprefix("unix://"))
        self._mark = secrets.token_hex(4)
        self._witnesses = Witnesses()
        self._open: list[DockerBackend] = []

    async def open(self) -> None:
        await self.line.open()

    def config(self, installation: str = "one") -> DockerConfig:
        return DockerConfig(
            installation_id=self.installation(installation),
            folder=self._folder / "docker",
            host=self.line.host,
            network="host",
            shm_mb=16,
            stop_grace_s=1,
        )

    def installation(self, name: str = "one") -> str:
        """Tests share a daemon, and must not see each other's."""
        return f"{name}-{self._mark}"

    async def control_plane(self, installation: str = "one", start_s: float = 0) -> DockerBackend:
        """A start takes as long as Docker takes: `start_s` cannot be had."""
        backend = DockerBackend(self.config(installation))
        await backend.open()
        self._open.append(backend)
        return backend

    def program(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "WITNESS": self._witnesses.url,
        }

    def runs(self, assignment_id: AssignmentId) -> Sequence[Witness]:
        return self._witnesses.heard[str(assignment_id)]

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        name = f"{container_id}.{secrets.token_hex(3)}"
        draft = Draft(kind=Kind.VACANT, assignment_id=AssignmentId(0), spec=SPEC)
        labels = draft.labels(self.installation())
        body = {"Image": VACANT, "Cmd": ["x"], "Labels": dict(labels)}
        self.dockerd.ask("POST", "/containers/create", body, name=name)
        return ContainerId(name)

    async def crash_in_start(self, order: StartRequest) -> None:
        """Killed when Docker has taken the start, and its answer is still on the way."""
        dying = await self.control_plane()
        start = DockerContainer.start

        async def last_act(container: DockerContainer) -> None:
            await start(container)
            raise Killed

        with mock.patch.object(DockerContainer, "start", last_act), suppress(Killed):
            await dying.start(order, timeout_s=TIMEOUT_S)

    def outage(self) -> AbstractContextManager[None]:
        return self.line.cut()

    def containers(self, installation: str = "one") -> list[dict[str, object]]:
        return self.dockerd.containers(installation=self.installation(installation))

    async def clear(self) -> None:
        for backend in self._open:
            await backend.close()
        await self.line.close()
        for installation in ("one", "two"):
            self.dockerd.remove_containers(installation=self.installation(installation))
        self._witnesses.close()
