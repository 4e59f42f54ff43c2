"""Copies of a PostgreSQL server: a streaming standby, and a backup that can be restored."""

import time
from pathlib import Path

from tests.support.postgres import READY_TIMEOUT_S, TestPostgres


class Standby(TestPostgres):
    """A standby that replicates a primary asynchronously, and can be promoted."""

    def __init__(self, primary: TestPostgres, programs: Path | None = None) -> None:
        self._primary = primary
        super().__init__(programs)

    def stop_receiving(self) -> None:
        """Wait until the standby has all commits so far, and receive no more of them."""
        with self._primary._maintenance() as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        self._wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{row[0]}'")
        with self._maintenance() as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
        self._wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")

    def promote(self) -> None:
        """Make the standby a primary, on a new timeline."""
        with self._maintenance() as connection:
            connection.execute("SELECT pg_promote()")

    def _initialise(self) -> None:
        copy_cluster(self, self._primary, "--write-recovery-conf")

    def _wait_for(self, condition: str) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        with self._maintenance() as connection:
            while connection.execute(condition).fetchone() != (True,):
                assert time.monotonic() < deadline, f"not true: {condition}"
                time.sleep(0.01)


class Backup(TestPostgres):
    """A base backup of a server, which runs as a server of its own: the restore."""

    def __init__(self, source: TestPostgres, programs: Path | None = None) -> None:
        self._source = source
        super().__init__(programs)
        self.stop()

    def _initialise(self) -> None:
        copy_cluster(self, self._source)


def copy_cluster(target: TestPostgres, source: TestPostgres, *options: str) -> None:
    made = target._account.run(
        [
            str(target._programs / "pg_basebackup"),
            f"--pgdata={target._data}",
            f"--dbname={source.url(tcp=True)}",
            "--checkpoint=fast",
            "--no-sync",
            *options,
        ]
    )
    assert made.returncode == 0, made.stderr
