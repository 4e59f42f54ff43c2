"""A real `botpool up`, as a person would start it, that a test can stop and start again."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import httpx

from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from tests.support.sessions import session

STOP_TIMEOUT_S = 60.0
SMALL_AND_QUICK = {
    "BOTPOOL_AGENT__HEARTBEAT_INTERVAL_MS": "1000",
    "BOTPOOL_POOLS__GOOGLE_MEET__MAX_SIZE": "3",
    "BOTPOOL_POOLS__TEAMS__MAX_SIZE": "8",
    "BOTPOOL_POOLS__ZOOM__MAX_SIZE": "3",
}


class RunningBotpool:
    """The address and the key stay the same over `stop` and `start`."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._port = free_port()
        self._process: Popen[str] | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.key = ""

    def start(self) -> None:
        """Returns when it has printed its address, as the contract has it: alone on a line."""
        arguments = ["up", "--data-dir", str(self._data_dir), "--port", str(self._port)]
        self._process = Popen(
            [str(Path(sys.executable).with_name("botpool")), *arguments],
            env={**os.environ, **SMALL_AND_QUICK},
            stdout=PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(f"{self.url}/#key="):
                self.key = line.strip().partition("#key=")[2]
                return
        raise RuntimeError(f"botpool up ended with {self._process.wait()}, see its output above")

    def stop(self) -> None:
        """As Ctrl-C does: its bots end with it."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=STOP_TIMEOUT_S)
        self._process = None

    def send(self, host: str, **bot_data: Any) -> int:
        """A bot into a meeting at this host; its id."""
        body = {"meetingUrl": f"https://{host}/secret-{host}", "botData": bot_data}
        return int(self._post("/v1/bots", body)["bot"]["id"])

    def ask_to_leave(self, bot_id: int) -> None:
        self._delete(f"/v1/bots/{bot_id}")

    def new_key(self, scope: str) -> tuple[int, str]:
        """Its id and the key itself."""
        made = self._post("/v1/keys", {"name": f"a {scope}", "scope": scope})
        return made["key"]["id"], made["secret"]

    def revoke(self, key_id: int) -> None:
        self._delete(f"/v1/keys/{key_id}")

    def expired_session(self, key_id: int) -> str:
        """The cookie of a session that was good until a moment ago."""
        secret = json.loads((self._data_dir / "installation.json").read_text())["secret"]
        return session(secret, key_id, ends_at=time.time() - 1)

    @property
    def database_url(self) -> str:
        """Of its embedded PostgreSQL."""
        url = EmbeddedPostgres(DataDir(self._data_dir)).attach()
        assert url is not None, "it does not run"
        return url

    @property
    def address(self) -> str:
        """What signs somebody in, below the url: as `botpool up` prints it."""
        return f"#key={self.key}"

    def _delete(self, path: str) -> None:
        headers = {"Authorization": f"Bearer {self.key}"}
        httpx.delete(self.url + path, headers=headers).raise_for_status()

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = httpx.post(self.url + path, json=body, headers=headers)
        answer.raise_for_status()
        return answer.json()


@contextmanager
def running_botpool(data_dir: Path) -> Iterator[RunningBotpool]:
    botpool = RunningBotpool(data_dir)
    botpool.start()
    try:
        yield botpool
    finally:
        botpool.stop()


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
        return port
