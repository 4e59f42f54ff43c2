"""An installation whose replica crashes and restarts, seen through its API, database and bots.

Replicas start one after the other on the same port, data directory and database. The client repeats
requests without a response under the same idempotency key.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import psycopg

from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix
from tests.chaos.recording_bot import EVENTS_FILE, MEETING_OVER
from tests.support.clock import Clock
from tests.support.invariants import assert_settled

HERE = Path(__file__).parent
WAIT_LIMIT_S = 120.0
"""A generous limit for slow machines; only a broken test waits this long."""
POOL_NAME = "google-meet"


class ForkServer:
    """Runs `crash_points.py`, which forks one replica at a time."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, str(HERE / "crash_points.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._program.stdin
        assert self._program.stdout
        self._requests, self._responses = self._program.stdin, self._program.stdout
        self._child: psutil.Process | None = None

    def fork_replica(self, request: Mapping[str, Any]) -> None:
        assert self._child is None, "a replica runs already"
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        self._child = psutil.Process(int(self._responses.readline()))

    def wait_for_exit(self, number: signal.Signals | None = None) -> int:
        """Send the signal, if any, wait for the end of the replica and return its exit code."""
        assert self._child is not None, "no replica runs"
        if number is not None:
            self._child.send_signal(number)
        self._child.wait(WAIT_LIMIT_S)
        self._child = None
        return int(self._responses.readline())

    def is_alive(self) -> bool:
        """Return whether a replica runs that has not ended."""
        return (
            self._child is not None
            and self._child.is_running()
            and self._child.status() != psutil.STATUS_ZOMBIE
        )

    def close(self) -> None:
        if self._child is not None:
            self.wait_for_exit(signal.SIGKILL)
        self._requests.close()
        self._program.wait(WAIT_LIMIT_S)
        self._responses.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class BotEvent:
    """One line of the events file, which a bot wrote."""

    __test__ = False

    event: str
    bot_id: int
    assignment: int

    @classmethod
    def parse(cls, line: str) -> Self:
        event, bot_id, assignment = line.split()
        return cls(event=event, bot_id=int(bot_id), assignment=int(assignment))


@dataclass(slots=True, kw_only=True)
class CrashInstallation:
    fork_server: ForkServer
    database_url: str
    database: psycopg.Connection
    clock: Clock
    folder: Path
    port: int
    settings: Mapping[str, Any]
    client: httpx.Client
    bots: dict[str, int] = field(default_factory=dict)
    """The accepted bots, by idempotency key."""

    @classmethod
    @contextmanager
    def opened(
        cls, fork_server: ForkServer, database_url: str, folder: Path, settings: Mapping[str, Any]
    ) -> Iterator[Self]:
        with socket.socket() as reserved:
            # Bound and not listening, so that no other program takes the port between two replicas.
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            key = new_api_key()
            with (
                psycopg.connect(database_url, autocommit=True) as database,
                httpx.Client(
                    base_url=f"http://127.0.0.1:{port}",
                    headers={"Authorization": f"Bearer {key}"},
                    timeout=WAIT_LIMIT_S,
                ) as client,
            ):
                _insert_api_key(database, key)
                yield cls(
                    fork_server=fork_server,
                    database_url=database_url,
                    database=database,
                    clock=Clock(database_url),
                    folder=folder,
                    port=port,
                    settings=settings,
                    client=client,
                )

    def start(self, *, crash: str | None = None) -> None:
        (self.folder / EVENTS_FILE).touch()
        self.fork_server.fork_replica(
            {
                "point": crash,
                "log": str(self.folder / "log"),
                "settings": {
                    "data_dir": str(self.folder / "data"),
                    "database": {"url": self.database_url},
                    "server": {"port": self.port},
                    "installation": {"id": "chaos", "secret": "4d1f0c9b7e62a85d3360f8e1b27c49a5"},
                    "queue": {"poll_interval_ms": 50},
                    "agent": {"heartbeat_interval_ms": 100},
                    "deploy": self.settings.get("deploy", {}),
                    "recovery": self.settings.get("recovery", {}),
                    **self.backend_settings(),
                },
                **self.fork_server_options(),
            }
        )
        self.wait_until(self._is_healthy, "the replica does not respond")

    def backend_settings(self) -> Mapping[str, Any]:
        command = [sys.executable, str(HERE / "recording_bot.py"), str(self.folder)]
        # The interpreter may be readable for this user only.
        process = {"command": command, "allow_shared_user": True}
        return {
            "pools": {
                POOL_NAME: {"max_size": 1, "stop_grace_s": 1, **self.settings.get("pool", {})}
            },
            "backends": {"process": {**process, **self.settings.get("process", {})}},
        }

    def fork_server_options(self) -> Mapping[str, Any]:
        """Return further options for the fork server."""
        return {}

    def is_alive(self) -> bool:
        return self.fork_server.is_alive()

    def _is_healthy(self) -> bool:
        with suppress(httpx.TransportError):
            return self.client.get("/healthz").status_code == 200
        return False

    def post(self, key: str, **bot_data: object) -> str:
        """Request a bot and return its status. The same key returns the same bot."""
        response = self.client.post(
            "/v1/bots",
            headers={"Idempotency-Key": key},
            json={"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": bot_data},
        )
        assert response.status_code in (200, 201), response.text
        bot = response.json()["bot"]
        replayed = response.headers.get("Idempotency-Replayed") == "true"
        assert replayed == (response.status_code == 200)
        assert replayed or key not in self.bots, "one request created two bots"
        assert self.bots.setdefault(key, bot["id"]) == bot["id"]
        return str(bot["status"])

    def stop(self, key: str) -> None:
        response = self.client.delete(f"/v1/bots/{self.bots[key]}")
        assert response.status_code in (200, 202), response.text

    def end_meetings(self) -> None:
        (self.folder / MEETING_OVER).touch()

    def wait_until(self, condition: Callable[[], object], message: str) -> None:
        give_up_at = time.monotonic() + WAIT_LIMIT_S
        while not condition():
            assert time.monotonic() < give_up_at, message
            time.sleep(0.03)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.database.execute(query, parameters).fetchall()

    def await_settled(self) -> None:
        """Wait until every bot is final and every slot is idle, and check the invariants."""

        def unsettled() -> list[tuple[Any, ...]]:
            return self.rows(
                "SELECT 'bot', id, status FROM bots"
                " WHERE status NOT IN ('DONE', 'FAILED', 'CANCELLED')"
                " UNION ALL SELECT 'slot', id, status FROM bot_pool_slots WHERE status <> 'idle'"
            )

        try:
            self.wait_until(lambda: not unsettled(), "the installation never settled")
        except AssertionError as error:
            raise AssertionError(f"{error}: {unsettled()}") from None
        assert_settled(self.database_url)
        assert self.rows("SELECT id FROM bots ORDER BY id") == [
            (bot_id,) for bot_id in sorted(self.bots.values())
        ], "the bots differ from the accepted requests"

    def final(self, key: str) -> tuple[str, int]:
        """Return the status and the attempts of a bot."""
        ((status, attempts),) = self.rows(
            "SELECT status, attempts FROM bots WHERE id = %s", self.bots[key]
        )
        return status, attempts

    def event_count(self, event: str, key: str) -> int:
        """Return how often the bot recorded this event."""
        return sum(
            each.event == event and each.bot_id == self.bots[key] for each in self.bot_events()
        )

    def assert_nothing_ran_twice(self) -> None:
        starts = Counter(each.assignment for each in self.bot_events() if each.event == "started")
        joins = Counter(each.bot_id for each in self.bot_events() if each.event == "joined")
        assert not {each: count for each, count in starts.items() if count > 1}, "started twice"
        assert not {each: count for each, count in joins.items() if count > 1}, "joined twice"

    def bot_events(self) -> list[BotEvent]:
        lines = (self.folder / EVENTS_FILE).read_text().splitlines()
        return [BotEvent.parse(line) for line in lines]

    def containers(self) -> set[str]:
        """Return the containers on disk, without those in creation or deletion (hidden names)."""
        found = (self.folder / "data" / "containers").iterdir()
        return {path.name for path in found if not path.name.startswith(".")}

    def containers_of_slots(self) -> set[str]:
        query = "SELECT container_id FROM bot_pool_slots WHERE container_id IS NOT NULL"
        return {container_id for (container_id,) in self.rows(query)}

    def processes(self) -> Sequence[Any]:
        """Return launchers and bots, which run in their container's directory."""
        return [
            process
            for process in psutil.process_iter(["cmdline", "cwd"])
            if process.pid != os.getpid()
            and any(
                str(self.folder) in word
                for word in (process.info["cwd"] or "", *(process.info["cmdline"] or ()))
            )
        ]


def _insert_api_key(database: psycopg.Connection, key: str) -> None:
    database.execute(
        "INSERT INTO api_keys (name, scope, prefix, key_hash) VALUES ('test', 'operator', %s, %s)",
        [shown_prefix(key), hash_api_key(key)],
    )
