"""A real installation: `botpool serve` in separate processes, as a supervisor runs it.

Replicas share a database and a data directory. Tests call them over HTTP, stop them, and count the
processes on the machine independently.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Sized
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import psycopg

from botpool.backends.process import ProcessBackend, run_lock
from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix
from tests.support.fences import ANY_ASSIGNMENT
from tests.support.ports import free_port

COMMAND = str(Path(sys.executable).with_name("botpool"))
READY_S = 120.0
FINAL = frozenset({"DONE", "FAILED", "CANCELLED"})
T = TypeVar("T", bound=Sized)


async def none_left(
    of_what: str, left: Callable[[], Awaitable[T]], *, within_s: float, every_s: float = 0.1
) -> None:
    """Poll until nothing is left; after the limit, fail with what remains."""
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
    """One replica: its process, its address and its log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    host: str = "127.0.0.1"
    """The address at which the test reaches the replica."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def wait_until_ready(self) -> None:
        async def problems() -> list[str]:
            assert self.process.poll() is None, f"botpool ended:\n{self.log.read_text()}"
            with suppress(httpx.TransportError):
                response = await get(f"{self.url}/readyz")
                return [] if response.status_code == 200 else [response.text]
            return ["no response"]

        await none_left("problems of a server that should be ready", problems, within_s=READY_S)

    async def stop(self) -> int:
        """Send SIGTERM, wait for the end and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, READY_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(slots=True, kw_only=True)
class Installation:
    """The database, the data directory and the secret that replicas share, and an admin's key."""

    database_url: str
    data_dir: Path
    settings: Mapping[str, str]
    """Settings by their dotted names."""
    key: str = field(default_factory=new_api_key)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    servers: list[Server] = field(default_factory=list)
    command: Sequence[str] = (COMMAND,)

    async def serve(
        self, port: int | None = None, *, settings: Mapping[str, str] | None = None
    ) -> Server:
        """Start another replica, perhaps with its own settings, and wait until it is ready."""
        server = self.launch(port, settings=settings)
        await server.wait_until_ready()
        return server

    def launch(
        self,
        port: int | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> Server:
        """Start another replica, perhaps with a prefixed command, without waiting for it."""
        port = port or free_port()
        log = self.data_dir / f"serve-{port}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*prefix, *self.command, "serve", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(settings),
                cwd=self.data_dir,
            )
        server = Server(process=process, port=port, log=log, host=host)
        self.servers.append(server)
        return server

    def client(self, server: Server, **options: Any) -> httpx.AsyncClient:
        return client(server.url, self.key, **options)

    def running(self) -> set[str]:
        """Return the containers with a held run lock."""
        found = self._containers.glob("[!.]*/run.lock")  # Hidden: in creation or deletion.
        return {lock.parent.name for lock in found if run_lock.is_held(str(lock))}

    def running_programs(self) -> set[str]:
        """Return the containers in which a program runs beside its launcher."""
        counts = Counter(self._container_of(process) for process in psutil.process_iter())
        return {container for container, count in counts.items() if container and count > 1}

    def processes(self) -> list[psutil.Process]:
        """Return the launchers and programs of our containers, found by their working directory."""
        return [process for process in psutil.process_iter() if self._container_of(process)]

    async def left_over(self) -> list[str]:
        """Return what still runs in containers, for `none_left`."""
        return [str(process) for process in self.processes()]

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query, parameters).fetchall()

    def insert_api_key(self) -> None:
        with psycopg.connect(self.database_url) as connection:
            connection.execute(
                "INSERT INTO api_keys (name, scope, prefix, key_hash)"
                " VALUES ('test', 'admin', %s, %s)",
                [shown_prefix(self.key), hash_api_key(self.key)],
            )

    async def clear(self) -> None:
        """Stop everything that a failed test left: replicas first, so that they start nothing."""
        for server in self.servers:
            server.kill()
        backend = ProcessBackend(self._containers, "acceptance", (), stop_grace_s=0)
        await backend.open()
        for found in await backend.list_owned(timeout_s=READY_S):
            await backend.delete(found.container_id, stop_through=ANY_ASSIGNMENT, timeout_s=READY_S)
        await backend.close()

    @property
    def _containers(self) -> Path:
        return self.data_dir / "containers"

    def _environment(self, replica_settings: Mapping[str, str] | None = None) -> dict[str, str]:
        settings = {
            "database.url": self.database_url,
            "data_dir": str(self.data_dir),
            "installation.id": "acceptance",
            "installation.secret": self.secret,
            # The interpreter of the tests may be in a home directory that other users cannot read.
            "backends.process.allow_shared_user": "true",
            **self.settings,
            **(replica_settings or {}),
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
        """Return the container in whose directory, or below, the process runs."""
        with suppress(psutil.Error):
            directory = str(process.cwd())
            if directory.startswith(f"{self._containers}/"):
                return directory.removeprefix(f"{self._containers}/").split("/")[0]
        return None


@asynccontextmanager
async def installation(
    database_url: str, data_dir: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Installation]:
    """Create an installation on a migrated database, and stop all of its processes at the end."""
    installed = Installation(database_url=database_url, data_dir=data_dir, settings=settings or {})
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


def client(url: str, key: str, **options: Any) -> httpx.AsyncClient:
    """Return a client with that key, which ignores the proxy settings of this machine."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, **{"timeout": 60.0, **options}
    )


async def get(url: str, *, timeout_s: float = 60.0) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=timeout_s) as user:
        return await user.get(url)
