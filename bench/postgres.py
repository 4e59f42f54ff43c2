"""The embedded PostgreSQL that all measures use, with its default settings, fsync included."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import stamina

from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from botpool.store.migrator import migrate

_MIGRATED = "migrated"
"""A migrated database to copy, which is quicker than a migration for each measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The server of one run, and how long the run measures."""

    folder: Path
    url: str
    small: bool
    """Whether the run is a quick check instead of a measurement."""

    @property
    def rounds(self) -> int:
        return 2 if self.small else 7

    @property
    def seconds(self) -> int:
        """The length of one side of one round."""
        return 1 if self.small else 3

    def database(self, name: str) -> str:
        """Create a migrated database on the same server and return its URL."""
        execute(self.url, f"CREATE DATABASE {name} TEMPLATE {_MIGRATED}")
        return self.url.replace("/botpool?", f"/{name}?")

    def server_cpu_s(self) -> float:
        """Return the processor seconds of the server so far, ended processes included."""
        pid = int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])
        server = psutil.Process(pid)
        times = server.cpu_times()
        total: float = times.user + times.system + times.children_user + times.children_system
        for child in server.children():
            # A process that ends now counts with the ended processes next time.
            with suppress(psutil.NoSuchProcess):
                own = child.cpu_times()
                total += own.user + own.system
        return total


@contextmanager
def started(folder: Path, *, small: bool) -> Iterator[Bench]:
    """Run a server for the duration of the block."""
    server = EmbeddedPostgres(DataDir.open(folder))
    url = server.start()
    try:
        migrate(url)
        execute(
            url.replace("/botpool?", "/postgres?"), f"CREATE DATABASE {_MIGRATED} TEMPLATE botpool"
        )
        _recycle_wal(url, files=4 if small else 24)
        yield Bench(folder=folder, url=url, small=small)
    finally:
        server.stop()


def _recycle_wal(url: str, *, files: int) -> None:
    """Let the server write its WAL files once and reuse them, as a server does after a while.

    A new server fills each new WAL file with zeros, which is slow on some machines.
    """
    written = "SELECT count(pg_logical_emit_message(false, 'bench', repeat('-', 1000000)))"
    execute(url, *[f"{written} FROM generate_series(1, 16)"] * files, "CHECKPOINT")


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@stamina.retry(on=psycopg.errors.DeadlockDetected, attempts=5)
def fill_pool(url: str, *, slots: int) -> None:
    """Empty the database and create a pool of idle slots that were used before.

    The loops of a running server may cause a deadlock; each statement can be repeated.
    """
    tables = (
        "bots, bot_pool_slots, bot_pool_queue, assignments, history, bot_heartbeats, "
        "pools, backends"
    )
    execute(
        url,
        f"TRUNCATE {tables} CASCADE",
        "INSERT INTO backends (name) VALUES ('null')",
        "INSERT INTO pools (pool_name, backend, image, max_size, heartbeats) "
        f"VALUES ('google-meet', 'null', 'null', {slots}, 'none')",
        "INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image, container_id, "
        "last_used_at) SELECT 'google-meet', n, 'pool-google-meet-' || n, 'null', 'null', "
        f"'c' || n, now() - make_interval(secs => n) FROM generate_series(1, {slots}) AS n",
        "INSERT INTO history (kind, slot_id, slot_name, to_state, reason) "
        "SELECT 'slot.status', id, slot_name, 'idle', 'the pool grew' FROM bot_pool_slots",
        # Not the empty tables: the planner would keep plans for empty tables.
        "VACUUM ANALYZE bot_pool_slots, pools, backends",
    )


def conditions() -> dict[str, object]:
    """Return the number of processors and the load, which the figures depend on."""
    return {
        "processors": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }
