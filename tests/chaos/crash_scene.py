"""One installation seen from outside: what its client asked, what its bots saw, what is left of it.

Control planes come and go on one port, one data directory and one database. The client repeats
whatever got no answer, under the same key, as clients do.
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
from tests.chaos.witness_bot import MEETING_OVER, WITNESSES
from tests.support.clock import Clock
from tests.support.invariants import assert_settled

HERE = Path(__file__).parent
PATIENCE_S = 120.0
"""Never waited for unless something is broken: the machine may be slow."""
PLATFORM = "google-meet"


class ForkServer:
    """The program `crash_points.py`: one control plane at a time, each a process of its own."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, str(HERE / "crash_points.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._program.stdin
        assert self._program.stdout
        self._orders, self._answers = self._program.stdin, self._program.stdout
        self._child: psutil.Process | None = None

    def deliver(self, order: Mapping[str, Any]) -> None:
        assert self._child is None, "one at a time"
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        self._child = psutil.Process(int(self._answers.readline()))

    def ended(self, number: signal.Signals | None = None) -> int:
        """The exit code of the control plane, which ends by itself or by that signal."""
        assert self._child is not None, "there is none"
        if number is not None:
            self._child.send_signal(number)
        self._child.wait(PATIENCE_S)
        self._child = None
        return int(self._answers.readline())

    def close(self) -> None:
        if self._child is not None:
            self.ended(signal.SIGKILL)
        self._orders.close()
        self._program.wait(PATIENCE_S)
        self._answers.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """One line that a bot wrote."""

    __test__ = False

    event: str
    bot_id: int
    assignment: int

    @classmethod
    def parse(cls, line: str) -> Self:
        event, bot_id, assignment = line.split()
        return cls(event=event, bot_id=int(bot_id), assignment=int(assignment))


@dataclass(slots=True, kw_only=True)
class Scene:
    fork_server: ForkServer
    database_url: str
    database: psycopg.Connection
    clock: Clock
    folder: Path
    port: int
    settings: Mapping[str, Any]
    client: httpx.Client
    bots: dict[str, int] = field(default_factory=dict)
    """The bots that were accepted, by their idempotency keys."""

    @classmethod
    @contextmanager
    def opened(
        cls, fork_server: ForkServer, database_url: str, folder: Path, settings: Mapping[str, Any]
    ) -> Iterator[Self]:
        with socket.socket() as reserved:
            # Bound and not listening: no other program gets the port between two control planes.
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            key = new_api_key()
            with (
                psycopg.connect(database_url, autocommit=True) as database,
                httpx.Client(
                    base_url=f"http://127.0.0.1:{port}",
                    headers={"Authorization": f"Bearer {key}"},
                    timeout=PATIENCE_S,
                ) as client,
            ):
                _adopt(database, key)
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
        (self.folder / WITNESSES).touch()
        self.fork_server.deliver(
            {
                "point": crash,
                "log": str(self.folder / "log"),
                "settings": {
                    "data_dir": str(self.folder / "data"),
                    "database": {"url": self.database_url},
                    "server": {"port": self.port},
                    "installation": {"id": "chaos", "secret": "secret"},
                    "queue": {"poll_interval_ms": 50},
                    "agent": {"heartbeat_interval_ms": 100},
                    "deploy": self.settings.get("deploy", {}),
                    "recovery": self.settings.get("recovery", {}),
                    **self.platform_settings(),
                },
                **self.manner(),
            }
        )
        self.until(self._answers, "the control plane does not answer")

    def platform_settings(self) -> Mapping[str, Any]:
        command = [sys.executable, str(HERE / "witness_bot.py"), str(self.folder)]
        return {
            "pools": {PLATFORM: {"max_size": 1}},
            "backends": {"process": {"command": command, **self.settings.get("process", {})}},
        }

    def manner(self) -> Mapping[str, Any]:
        """What else the fork_server must know."""
        return {}

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return self.client.get("/healthz").status_code == 200
        return False

    def post(self, key: str, **bot_data: object) -> str:
        """Ask for a bot; its status. The same key again is the same bot."""
        answer = self.client.post(
            "/v1/bots",
            headers={"Idempotency-Key": key},
            json={"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": bot_data},
        )
        assert answer.status_code in (200, 201), answer.text
        bot = answer.json()["bot"]
        replayed = answer.headers.get("Idempotency-Replayed") == "true"
        assert replayed == (answer.status_code == 200)
        assert replayed or key not in self.bots, "one request made two bots"
        assert self.bots.setdefault(key, bot["id"]) == bot["id"]
        return str(bot["status"])

    def stop(self, key: str) -> None:
        answer = self.client.delete(f"/v1/bots/{self.bots[key]}")
        assert answer.status_code in (200, 202), answer.text

    def end_meetings(self) -> None:
        (self.folder / MEETING_OVER).touch()

    def until(self, condition: Callable[[], object], complaint: str) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_at, complaint
            time.sleep(0.03)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.database.execute(query, parameters).fetchall()

    def await_settled(self) -> None:
        """Every bot that was accepted is final, and every slot waits for the next."""

        def restless() -> list[tuple[Any, ...]]:
            return self.rows(
                "SELECT 'bot', id, status FROM bots"
                " WHERE status NOT IN ('DONE', 'FAILED', 'CANCELLED')"
                " UNION ALL SELECT 'slot', id, status FROM bot_pool_slots WHERE status <> 'idle'"
            )

        try:
            self.until(lambda: not restless(), "it never came to rest")
        except AssertionError as error:
            raise AssertionError(f"{error}: {restless()}") from None
        assert_settled(self.database_url)
        assert self.rows("SELECT id FROM bots ORDER BY id") == [
            (bot_id,) for bot_id in sorted(self.bots.values())
        ], "there are other bots than those that were asked for"

    def final(self, key: str) -> tuple[str, int]:
        """Status and attempts of a bot."""
        ((status, attempts),) = self.rows(
            "SELECT status, attempts FROM bots WHERE id = %s", self.bots[key]
        )
        return status, attempts

    def witnessed(self, event: str, key: str) -> int:
        """How often that happened to a bot, by its own words."""
        return sum(
            each.event == event and each.bot_id == self.bots[key] for each in self.testimonies()
        )

    def assert_nothing_ran_twice(self) -> None:
        starts = Counter(each.assignment for each in self.testimonies() if each.event == "started")
        joins = Counter(each.bot_id for each in self.testimonies() if each.event == "joined")
        assert not {each: count for each, count in starts.items() if count > 1}, "started twice"
        assert not {each: count for each, count in joins.items() if count > 1}, "joined twice"

    def testimonies(self) -> list[Testimony]:
        lines = (self.folder / WITNESSES).read_text().splitlines()
        return [Testimony.parse(line) for line in lines]

    def containers(self) -> set[str]:
        """Those on the disk; what is hidden is half made or half deleted."""
        found = (self.folder / "data" / "containers").iterdir()
        return {path.name for path in found if not path.name.startswith(".")}

    def containers_of_slots(self) -> set[str]:
        query = "SELECT container_id FROM bot_pool_slots WHERE container_id IS NOT NULL"
        return {container_id for (container_id,) in self.rows(query)}

    def processes(self) -> Sequence[Any]:
        """What runs for bots: launchers and bots work in their container's directory."""
        return [
            process
            for process in psutil.process_iter(["cmdline", "cwd"])
            if process.pid != os.getpid()
            and any(
                str(self.folder) in word
                for word in (process.info["cwd"] or "", *(process.info["cmdline"] or ()))
            )
        ]


def _adopt(database: psycopg.Connection, key: str) -> None:
    database.execute(
        "INSERT INTO api_keys (name, scope, prefix, key_hash) VALUES ('test', 'user', %s, %s)",
        [shown_prefix(key), hash_api_key(key)],
    )
