"""What is measured on: one embedded PostgreSQL with its defaults, fsync included."""

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
from botpool.store.migrations import migrate

_MIGRATED = "migrated"
"""A database to copy: that is quicker than to migrate each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    folder: Path
    url: str
    small: bool
    """A quick run that only shows that nothing has broken down."""

    @property
    def rounds(self) -> int:
        return 2 if self.small else 7

    @property
    def seconds(self) -> int:
        """How long one side of one round lasts."""
        return 1 if self.small else 3

    def database(self, name: str) -> str:
        """A new migrated database on the same server; its URL."""
        execute(self.url, f"CREATE DATABASE {name} TEMPLATE {_MIGRATED}")
        return self.url.replace("/botpool?", f"/{name}?")

    def server_cpu_s(self) -> float:
        """Processor seconds of the server so far, those of its ended processes included."""
        pid = int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])
        server = psutil.Process(pid)
        times = server.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in server.children():
            # One that ends meanwhile is among the ended ones the next time.
            with suppress(psutil.NoSuchProcess):
                own = child.cpu_times()
                total += own.user + own.system
        return total


@contextmanager
def prepared(folder: Path, *, small: bool) -> Iterator[Ground]:
    server = EmbeddedPostgres(DataDir.open(folder))
    url = server.start()
    try:
        migrate(url)
        execute(
            url.replace("/botpool?", "/postgres?"), f"CREATE DATABASE {_MIGRATED} TEMPLATE botpool"
        )
        _wear_in(url, files=4 if small else 24)
        yield Ground(folder=folder, url=url, small=small)
    finally:
        server.stop()


def _wear_in(url: str, *, files: int) -> None:
    """Have the server write its log once: it uses those files again, as one that has run does.

    A new server fills each with zeros before it writes to it, which is dear on some machines.
    """
    written = "SELECT count(pg_logical_emit_message(false, 'bench', repeat('-', 1000000)))"
    execute(url, *[f"{written} FROM generate_series(1, 16)"] * files, "CHECKPOINT")


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@stamina.retry(on=psycopg.errors.DeadlockDetected, attempts=5)
def fill_pool(url: str, *, slots: int) -> None:
    """A pool of that many idle slots that were used before, and nothing else.

    A server's loops may read these tables in another order; each statement can be done again.
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
        # Not the others: of an empty table the server would take note that it is empty.
        "VACUUM ANALYZE bot_pool_slots, pools, backends",
    )


def conditions() -> dict[str, object]:
    """What else went on: without it a figure says little."""
    return {
        "processors": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }
