"""A PostgreSQL for tests: made in a temporary directory, fast, and safe to kill.

Every tier uses it, once per session, and gives each test a database of its own: `create_database`
from a migrated template takes some 50 ms. It runs the wheel's server (18) or, with
`BOTPOOL_TEST_POSTGRES=15`, Debian's of that version: `make test` runs the tiers that touch the
database on both.
"""

import os
import pwd
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Self
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from botpool.store.embedded import find_programs
from botpool.store.server_account import ServerAccount
from tests.support.components import missing
from tests.support.ports import free_port

VERSION_VARIABLE = "BOTPOOL_TEST_POSTGRES"
DEBIAN = Path("/usr/lib/postgresql")
USER = "botpool"
READY_TIMEOUT_S = 60.0
MEMORY = Path("/dev/shm")
ROOM = 2 * 1024**3

# Not synchronous_commit: without fsync it costs nothing, and with it a commit survives `kill`.
FAST = {"fsync": "off", "full_page_writes": "off"}
SIZES = {"shared_buffers": "64MB", "max_connections": "300", "max_wal_size": "256MB"}


def debian_programs(version: str | None = None) -> Path | None:
    """The programs of Debian's PostgreSQL of that version, else the newest; None if missing."""
    found = sorted(DEBIAN.glob(f"{version or '*'}/bin"), key=lambda path: float(path.parent.name))
    return found[-1] if found else None


def chosen_programs() -> Path:
    """The programs of the version that `BOTPOOL_TEST_POSTGRES` names, else the wheel's."""
    version = os.environ.get(VERSION_VARIABLE)
    if not version:
        return find_programs()
    programs = debian_programs(version)
    if programs is None:
        missing(f"PostgreSQL {version}", f"install the package postgresql-{version}")
    return programs


class TestPostgres:
    """A server, its port and its directory, which stay the same over `stop`, `kill`, `restart`."""

    __test__ = False

    def __init__(
        self, programs: Path | None = None, *, settings: Mapping[str, str] | None = None
    ) -> None:
        """Programs of `chosen_programs` by default; as root they run as a system account."""
        self._programs = programs or chosen_programs()
        self._settings = settings or {}
        self._account = _account(self._programs)
        self._account.allow_programs(self._programs.parent)
        self.directory = Path(tempfile.mkdtemp(prefix="botpool-test-", dir=fastest_place()))
        self.directory.chmod(0o755)
        os.chown(self.directory, self._account.uid, self._account.gid)
        self.port = free_port()
        self._server: Popen[bytes] | None = None
        self._initialise()
        self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def pid(self) -> int:
        """The postmaster's."""
        assert self._server is not None, "the server does not run"
        return self._server.pid

    @property
    def owner(self) -> ServerAccount:
        """The account that the server runs as."""
        return self._account

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """Good in any process of this machine; over the Unix socket unless `tcp` is wanted."""
        if tcp:
            return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"
        host = quote(str(self.directory), safe="")
        return f"postgresql://{USER}@/{database}?host={host}&port={self.port}"

    def create_database(self, template: str | None = None, *, tcp: bool = False) -> str:
        """A new database, empty or a copy of the one at the URL `template`; its URL."""
        name = f"test_{secrets.token_hex(6)}"
        source = conninfo_to_dict(template)["dbname"] if template else "template1"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        with self._maintenance() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(str(source))))
        return self.url(name, tcp=tcp)

    def drop_database(self, url: str) -> None:
        """Drop a database and disconnect its sessions."""
        name = str(conninfo_to_dict(url)["dbname"])
        with self._maintenance() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def copy_by_dump(self, source: str, target: str) -> None:
        """Dump the database at one URL and load the dump into an empty one."""
        dumped = self._account.run([str(self._programs / "pg_dump"), source])
        assert dumped.returncode == 0, dumped.stderr
        script = self.directory / "dump.sql"
        script.write_text(dumped.stdout)
        loaded = self._account.run(
            [str(self._programs / "psql"), "--quiet", "--file", str(script), target]
        )
        script.unlink()
        assert loaded.returncode == 0, loaded.stderr

    def stop(self) -> None:
        """An orderly shutdown; connections are closed with an error, as in real life."""
        if self._server:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(READY_TIMEOUT_S)
            self._server = None

    def kill(self) -> None:
        """A crash: the postmaster and all its children at once, nothing flushed."""
        if self._server:
            children = _children(self._server.pid)
            self._server.kill()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            self._server.wait()
            self._server = None
            while any(map(_lives, children)):
                time.sleep(0.005)

    def restart(self) -> None:
        """Start again on the same data and port, after an orderly stop if it still runs."""
        self.stop()
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        places = {"unix_socket_directories": str(self.directory), "port": str(self.port)}
        arguments = [*self._wrapper(), str(self._programs / "postgres"), "-D", str(self._data)]
        chosen = {**FAST, **SIZES, "listen_addresses": "127.0.0.1", **self._settings, **places}
        for name, value in chosen.items():
            arguments += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._server = self._account.launch(arguments, log.fileno())
        self._await_ready(self._server)

    def discard(self) -> None:
        """End it and remove its directory; in order, as a killed server leaks shared memory."""
        self.stop()
        shutil.rmtree(self.directory)

    def _wrapper(self) -> list[str]:
        """The command that starts the server; a subclass may change the server's environment."""
        return []

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _initialise(self) -> None:
        made = self._account.run(
            [
                str(self._programs / "initdb"),
                f"--pgdata={self._data}",
                f"--username={USER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ]
        )
        assert made.returncode == 0, made.stderr

    def _await_ready(self, server: Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and server.poll() is None:
            with suppress(psycopg.OperationalError), self._maintenance():
                return
            time.sleep(0.01)
        raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()}")

    @contextmanager
    def _maintenance(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            yield connection


def _account(programs: Path) -> ServerAccount:
    """As root: Debian's server as Debian's account, the wheel's as the embedded one's."""
    if os.geteuid() == 0 and programs.is_relative_to(DEBIAN):
        entry = pwd.getpwnam("postgres")
        return ServerAccount(uid=entry.pw_uid, gid=entry.pw_gid)
    return ServerAccount.for_data(Path("/nonexistent"))


def fastest_place() -> Path | None:
    """Memory, where there is enough: a copy of a database is some 300 new files."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        return MEMORY
    return None


def _children(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children()
    return []


def _lives(process: psutil.Process) -> bool:
    """A zombie does not: who inherits orphans here may take its time to reap them."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
