"""What a PostgreSQL data directory says about the server that uses it.

A server writes `postmaster.pid` while it runs and leaves it behind when it is killed. The process
number in it proves nothing then: it may belong to a stranger by now, or to a zombie. Whether the
server lives is therefore asked of its socket.
"""

import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg

PORT = 5432
SUPERUSER = "botpool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """The lines of `postmaster.pid` that matter here."""

    pid: int
    socket_dir: Path
    status: str

    @classmethod
    def read(cls, pgdata: Path) -> Self | None:
        """The server that wrote the file; None without a file, or with one half written."""
        try:
            lines = (pgdata / "postmaster.pid").read_text().splitlines()
            pid, socket_dir, status = int(lines[0]), lines[4], lines[7]
        except (FileNotFoundError, ValueError, IndexError):
            return None
        if pid <= 1:  # to signal 0, -1 or a negative number is to signal many
            return None
        return cls(pid=pid, socket_dir=Path(socket_dir), status=status.strip())

    @property
    def ready(self) -> bool:
        return self.status == "ready" and self.listens()

    def listens(self) -> bool:
        """Whether somebody answers at the socket: true from the start of recovery to the end."""
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.settimeout(1)
            probe.connect(str(self.socket_dir / f".s.PGSQL.{PORT}"))
            return True
        return False

    def answers(self) -> bool:
        """Whether it takes a connection, which a server that was just killed no longer does."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=10).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        """A libpq URL; user and port are named so that PGUSER and PGPORT cannot change them."""
        host = quote(str(self.socket_dir), safe="")
        return f"postgresql://{SUPERUSER}@/{database}?host={host}&port={PORT}"
