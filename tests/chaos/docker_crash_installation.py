"""The set-up of the crash tests on Docker."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.chaos.crash_installation import POOL_NAME, CrashInstallation
from tests.chaos.recording_bot import EVENTS_FILE, MEETING_OVER
from tests.support.dockerd import Dockerd

INSTALLATION = "chaos"
CALL_TIMEOUT_S = 5.0
"""A busy daemon needs more time than a process."""


@dataclass(slots=True, kw_only=True)
class DockerCrashInstallation(CrashInstallation):
    dockerd: Dockerd
    image: str
    recorder_url: str

    def backend_settings(self) -> Mapping[str, Any]:
        return {
            "pools": {POOL_NAME: {"backend": "docker", "image": self.image, "max_size": 1}},
            "backends": {
                "docker": {"host": self.dockerd.host, "network": "host", "stop_grace_s": 1}
            },
            "server": {"port": self.port, "public_url": f"http://127.0.0.1:{self.port}"},
        }

    def fork_server_options(self) -> Mapping[str, Any]:
        return {"call_timeout_s": CALL_TIMEOUT_S}

    def post(self, key: str, **bot_data: object) -> str:
        return CrashInstallation.post(self, key, recorder=self.recorder_url, **bot_data)

    def containers(self) -> set[str]:
        found = self.dockerd.containers(installation=INSTALLATION)
        return {name.lstrip("/") for each in found for name in each["Names"]}

    def processes(self) -> Sequence[Any]:
        found = self.dockerd.containers(installation=INSTALLATION)
        return [each["Names"] for each in found if each["State"] == "running"]


@contextmanager
def event_recorder(folder: Path) -> Iterator[str]:
    """Record the reports of bots in the file of `recording_bot.py`, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event, bot_id, assignment = self.path.strip("/").split("/")
            with lock, (folder / EVENTS_FILE).open("a+") as file:
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
