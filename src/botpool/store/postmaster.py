"""The `postmaster.pid` file of a PostgreSQL data directory.

A server writes the file while it runs, and leaves it behind when it is killed. Its process id
proves nothing then: it may belong to another process or a zombie. So the socket shows whether the
server runs.
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
        """Read the file; None if it is missing or incomplete."""
        try:
            lines = (pgdata / "postmaster.pid").read_text().splitlines()
            pid, socket_dir, status = int(lines[0]), lines[4], lines[7]
        except (FileNotFoundError, ValueError, IndexError):
            return None
        if pid <= 1:  # a signal to 0 or a negative number reaches many processes
            return None
        return cls(pid=pid, socket_dir=Path(socket_dir), status=status.strip())

    @property
    def ready(self) -> bool:
        return self.status == "ready" and self.listens()

    def listens(self) -> bool:
        """Check whether a server accepts connections at the socket, also during its recovery."""
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.settimeout(1)
            probe.connect(str(self.socket_dir / f".s.PGSQL.{PORT}"))
            return True
        return False

    def answers(self) -> bool:
        """Check whether a session can start; a server that was just killed may still listen."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=10).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        """Return a libpq URL with user and port, so that PGUSER and PGPORT have no effect."""
        host = quote(str(self.socket_dir), safe="")
        return f"postgresql://{SUPERUSER}@/{database}?host={host}&port={PORT}"
