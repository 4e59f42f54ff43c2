"""A real installation: `botpool serve` in processes of its own, as a supervisor would run it.

Replicas share a database and a data directory; a test talks to them over HTTP, ends them as it
likes, and counts what runs on the machine without asking them.
"""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Sized
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import psycopg

from botpool.backends.process import ProcessBackend, run_lock
from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix

COMMAND = str(Path(sys.executable).with_name("botpool"))
READY_S = 120.0
FINAL = frozenset({"DONE", "FAILED", "CANCELLED"})
T = TypeVar("T", bound=Sized)


async def none_left(
    of_what: str, left: Callable[[], Awaitable[T]], *, within_s: float, every_s: float = 0.1
) -> None:
    """Ask again and again what is left, until nothing is; fail with the last answer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while remaining := await left():
        if loop.time() > deadline:
            raise AssertionError(
                f"after {within_s:g} s there are {len(remaining)} {of_what}: {remaining}"
            )
        await asyncio.sleep(every_s)


@dataclass(slots=True, kw_only=True)
class Server:
    """One replica: its process, its address, and what it says."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def is_ready(self) -> None:
        async def problems() -> list[str]:
            assert self.process.poll() is None, f"botpool ended:\n{self.log.read_text()}"
            with suppress(httpx.TransportError):
                answer = await get(f"{self.url}/readyz")
                return [] if answer.status_code == 200 else [answer.text]
            return ["no answer"]

        await none_left("problems of a server that should be ready", problems, within_s=READY_S)

    async def stop(self) -> int:
        """As a supervisor does; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, READY_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(slots=True, kw_only=True)
class Installation:
    """What replicas share: the database, the data directory, the secret; and an admin's key."""

    database_url: str
    data_dir: Path
    settings: Mapping[str, str]
    """By their dotted names."""
    key: str = field(default_factory=new_api_key)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    servers: list[Server] = field(default_factory=list)
    command: Sequence[str] = (COMMAND,)

    async def serve(self, port: int | None = None) -> Server:
        """Start one more replica, where another was if need be, and wait until it is ready."""
        port = port or _free_port()
        log = self.data_dir / f"serve-{port}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.command, "serve", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                cwd=self.data_dir,
            )
        server = Server(process=process, port=port, log=log)
        self.servers.append(server)
        await server.is_ready()
        return server

    def client(self, server: Server, **options: Any) -> httpx.AsyncClient:
        return client(server.url, self.key, **options)

    def running(self) -> set[str]:
        """The containers in which something runs, by the kernel's locks."""
        found = self._containers.glob("[!.]*/run.lock")  # hidden: half made, and gone in a moment
        return {lock.parent.name for lock in found if run_lock.is_held(str(lock))}

    def running_programs(self) -> set[str]:
        """The containers whose program runs beside its launcher, by the kernel's processes."""
        counts = Counter(self._container_of(process) for process in psutil.process_iter())
        return {container for container, count in counts.items() if container and count > 1}

    def processes(self) -> list[psutil.Process]:
        """Launchers and programs of our containers, by where they work."""
        return [process for process in psutil.process_iter() if self._container_of(process)]

    async def left_over(self) -> list[str]:
        """What still runs in containers, for `none_left`."""
        return [str(process) for process in self.processes()]

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query, parameters).fetchall()

    def adopt_key(self) -> None:
        with psycopg.connect(self.database_url) as connection:
            connection.execute(
                "INSERT INTO api_keys (name, scope, prefix, key_hash)"
                " VALUES ('test', 'admin', %s, %s)",
                [shown_prefix(self.key), hash_api_key(self.key)],
            )

    async def clear(self) -> None:
        """End whatever a failed test left: replicas first, so that none starts anything again."""
        for server in self.servers:
            server.kill()
        backend = ProcessBackend(self._containers, "acceptance", (), stop_grace_s=0)
        await backend.open()
        for found in await backend.list_owned(timeout_s=READY_S):
            await backend.delete(found.container_id, timeout_s=READY_S)
        await backend.close()

    @property
    def _containers(self) -> Path:
        return self.data_dir / "containers"

    def _environment(self) -> dict[str, str]:
        settings = {
            "database.url": self.database_url,
            "data_dir": str(self.data_dir),
            "installation.id": "acceptance",
            "installation.secret": self.secret,
            **self.settings,
        }
        ours = {
            f"BOTPOOL_{name.upper().replace('.', '__').replace('-', '_')}": value
            for name, value in settings.items()
        }
        kept = {
            name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ
        }
        return kept | ours

    def _container_of(self, process: psutil.Process) -> str | None:
        """A launcher works in its container, a program in a folder of it."""
        with suppress(psutil.Error):
            place = str(process.cwd())
            if place.startswith(f"{self._containers}/"):
                return place.removeprefix(f"{self._containers}/").split("/")[0]
        return None


@asynccontextmanager
async def installation(
    database_url: str, data_dir: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Installation]:
    """An installation on a migrated database; nothing of it runs afterwards."""
    made = Installation(database_url=database_url, data_dir=data_dir, settings=settings or {})
    made.adopt_key()
    try:
        yield made
    finally:
        await made.clear()


def client(url: str, key: str, **options: Any) -> httpx.AsyncClient:
    """A user with that key; settings of this machine for proxies are not meant for us."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, **{"timeout": 60.0, **options}
    )


async def get(url: str, *, timeout_s: float = 10.0) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=timeout_s) as anybody:
        return await anybody.get(url)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
        return port
