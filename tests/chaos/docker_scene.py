"""The set-up of the crash tests on Docker."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.chaos.crash_scene import PLATFORM, Scene
from tests.chaos.witness_bot import MEETING_OVER, WITNESSES
from tests.support.dockerd import Dockerd

INSTALLATION = "chaos"
CALL_TIMEOUT_S = 5.0
"""A busy daemon needs more time than a process."""


@dataclass(slots=True, kw_only=True)
class DockerScene(Scene):
    dockerd: Dockerd
    image: str
    witness_url: str

    def platform_settings(self) -> Mapping[str, Any]:
        return {
            "pools": {PLATFORM: {"backend": "docker", "image": self.image, "max_size": 1}},
            "backends": {
                "docker": {"host": self.dockerd.host, "network": "host", "stop_grace_s": 1}
            },
            "server": {"port": self.port, "public_url": f"http://127.0.0.1:{self.port}"},
        }

    def manner(self) -> Mapping[str, Any]:
        return {"call_timeout_s": CALL_TIMEOUT_S}

    def post(self, key: str, **bot_data: object) -> str:
        return Scene.post(self, key, witness=self.witness_url, **bot_data)

    def containers(self) -> set[str]:
        found = self.dockerd.containers(installation=INSTALLATION)
        return {name.lstrip("/") for each in found for name in each["Names"]}

    def processes(self) -> Sequence[Any]:
        found = self.dockerd.containers(installation=INSTALLATION)
        return [each["Names"] for each in found if each["State"] == "running"]


@contextmanager
def witnesses(folder: Path) -> Iterator[str]:
    """Record the reports of bots in the file of `witness_bot.py`, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event, bot_id, assignment = self.path.strip("/").split("/")
            with lock, (folder / WITNESSES).open("a+") as file:
                file.write(f"{event} {bot_id} {assignment}\n")
                file.seek(0)
                reports = sum(line.startswith(f"{event} {bot_id} ") for line in file)
            self._respond(str(reports))

        def do_GET(self) -> None:
            self._respond("yes" if (folder / MEETING_OVER).exists() else "no")

        def _respond(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Suppress the log."""

    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
