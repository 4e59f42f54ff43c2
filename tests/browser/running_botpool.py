"""Runs `botpool up` in a process that a test can stop and start again."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import httpx

from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from tests.support.ports import free_port
from tests.support.sessions import insert_session

STOP_TIMEOUT_S = 120.0
STATUS_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 60.0
SETTINGS = {
    "BOTPOOL_AGENT__HEARTBEAT_INTERVAL_MS": "1000",
    "BOTPOOL_AGENT__LEAVE_GRACE_S": "300",  # a slow agent must still end its bot as DONE
    "BOTPOOL_POOLS__GOOGLE_MEET__MAX_SIZE": "3",
    "BOTPOOL_POOLS__TEAMS__MAX_SIZE": "8",
    "BOTPOOL_POOLS__ZOOM__MAX_SIZE": "3",
}


class RunningBotpool:
    """The process, its address and its key. Both stay the same after `stop` and `start`."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._port = free_port()
        self._process: Popen[str] | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.key = ""

    def start(self) -> None:
        """Start the process and wait until it prints the dashboard's address."""
        arguments = ["up", "--data-dir", str(self._data_dir), "--port", str(self._port)]
        self._process = Popen(
            [str(Path(sys.executable).with_name("botpool")), *arguments],
            env={**os.environ, **SETTINGS},
            stdout=PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == f"{self.url}/":
                self.key = (self._data_dir / "key").read_text().strip()
                return
        raise RuntimeError(f"botpool up ended with {self._process.wait()}, see its output above")

    def stop(self) -> None:
        """Stop the process with SIGINT, as Ctrl-C does."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=STOP_TIMEOUT_S)
        self._process = None

    def send(self, host: str, *, key: str | None = None, name: str = "b", **bot_data: Any) -> int:
        """Create a bot for a meeting at this host, with this key, and return its id."""
        link = f"https://{host}/secret-{host}"
        body = {"meetingUrl": link, "botDisplayName": name, "botData": bot_data}
        return int(self._post("/v1/bots", body, key)["bot"]["id"])

    def wait_for_status(self, bot_id: int, status: str) -> None:
        deadline = time.monotonic() + STATUS_TIMEOUT_S
        while (found := self._get(f"/v1/bots/{bot_id}")["bot"]["status"]) != status:
            assert time.monotonic() < deadline, f"bot {bot_id} is {found}, not {status}"
            time.sleep(0.1)

    def ask_to_leave(self, bot_id: int) -> None:
        self._delete(f"/v1/bots/{bot_id}")

    def new_key(self, scope: str, tenant: str = "default") -> tuple[int, str]:
        """Create an API key and return its id and its secret."""
        created = self._post("/v1/keys", {"name": f"a {scope}", "scope": scope, "tenant": tenant})
        return created["key"]["id"], created["secret"]

    def new_tenant(self, name: str) -> None:
        self._post("/v1/tenants", {"name": name})

    def new_webhook(self, key: str, url: str) -> int:
        return int(self._post("/v1/webhooks", {"url": url}, key)["webhook"]["id"])

    def revoke(self, key_id: int) -> None:
        self._delete(f"/v1/keys/{key_id}")

    def expired_session(self, key_id: int) -> str:
        """The cookie of a session that ended a second ago."""
        return insert_session(self.database_url, key_id, ends_in_s=-1)

    @property
    def database_url(self) -> str:
        """The address of the embedded PostgreSQL."""
        url = EmbeddedPostgres(DataDir(self._data_dir)).attach()
        assert url is not None, "PostgreSQL does not run"
        return url

    @property
    def address(self) -> str:
        """The fragment that signs a browser in, as `botpool up` prints it."""
        return f"#key={self.key}"

    def _get(self, path: str) -> Any:
        return self._request("GET", path).json()

    def _delete(self, path: str) -> None:
        self._request("DELETE", path)

    def _post(self, path: str, body: dict[str, Any], key: str | None = None) -> Any:
        return self._request("POST", path, key=key, json=body).json()

    def _request(
        self, method: str, path: str, *, key: str | None = None, **options: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        url = self.url + path
        response = httpx.request(method, url, headers=headers, timeout=REQUEST_TIMEOUT_S, **options)
        return response.raise_for_status()


@contextmanager
def running_botpool(data_dir: Path) -> Iterator[RunningBotpool]:
    botpool = RunningBotpool(data_dir)
    botpool.start()
    try:
        yield botpool
    finally:
        botpool.stop()
