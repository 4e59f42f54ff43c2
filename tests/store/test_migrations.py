"""Migrations: a running installation is upgraded, and unknown schemas are refused."""

import asyncio
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import as_file
from pathlib import Path

import psycopg
import pytest

from botpool.domain.errors import MigrationFailed, SchemaMismatch
from botpool.domain.ids import BotId
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from botpool.store import migrator
from botpool.store.maintenance import AppliedMigration
from botpool.store.migrations import MIGRATIONS, check_schema, known_names
from botpool.store.migrator import migrate
from tests.support.clock import Clock
from tests.support.invariants import assert_invariants, assert_settled
from tests.support.replicas import Stage, bot_request, pool

NEXT = "0002_add_labels"
INDEX = "0003_index_labels"
EXPANSION = """-- Add labels.
-- compatible with: 0001_initial
ALTER TABLE bots ADD COLUMN label text NOT NULL DEFAULT 'none';
ALTER TABLE bot_pool_slots ADD COLUMN label text;
UPDATE bot_pool_slots SET label = slot_name, version = version + 1;
CREATE TABLE labels (label text PRIMARY KEY);
"""
CONCURRENT_INDEX = """-- Index the labels.
-- compatible with: 0001_initial
-- no transaction
DROP INDEX CONCURRENTLY IF EXISTS idx_bots_label
-- next statement
CREATE INDEX CONCURRENTLY idx_bots_label ON bots (label)
"""


@pytest.fixture
def migrations(tmp_path: Path) -> Iterator[Path]:
    """The migrations of this version and two more, as the next version has them."""
    folder = tmp_path / "migrations"
    with as_file(MIGRATIONS) as known:
        shutil.copytree(known, folder)
    (folder / f"{NEXT}.sql").write_text(EXPANSION)
    (folder / f"{INDEX}.sql").write_text(CONCURRENT_INDEX)
    yield folder


class Users:
    """Admit bots one after another at one replica and report each as done once it runs."""

    def __init__(self, stage: Stage, replica: Replica) -> None:
        self._stage = stage
        self._replica = replica
        self.admitted: list[BotId] = []
        self.done: list[BotId] = []

    async def send_bots(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            admitted = await self._replica.admission.admit(bot_request())
            self.admitted.append(admitted.bot.id)
            await self._see_done(admitted.bot.id)
            self.done.append(admitted.bot.id)

    async def _see_done(self, bot_id: BotId) -> None:
        while (await self._replica.admission.find(bot_id)).bot.status != "JOINING_CALL":
            await asyncio.sleep(0.01)
        assert await self._stage.end(self._replica, bot_id)


async def until(count: int, finished: list[BotId], sending: asyncio.Future[object]) -> None:
    """Wait until so many bots are done; a failed sender fails the test at once."""
    while len(finished) < count:
        assert not sending.done(), sending.exception()
        await asyncio.sleep(0.01)


async def test_upgrade_of_running_installation_loses_no_bot(
    database_url: str, clock: Clock, migrations: Path
) -> None:
    async with Stage.set(database_url, clock) as stage:
        policy = Policy(observe_interval_s=0.1, queue_poll_s=0.1)
        replicas = [await stage.replica(pool(4), policy=policy) for _ in range(2)]
        waiting = await stage.run_bot(replicas[0])
        for replica in replicas:
            await replica.start()
        users = [Users(stage, replica) for replica in replicas for _ in range(3)]
        enough = asyncio.Event()
        sending = asyncio.gather(*(each.send_bots(enough) for each in users))
        try:
            first, last = users[0], users[-1]
            await until(3, first.done, sending)
            await until(3, last.done, sending)
            applied = await asyncio.to_thread(migrate, database_url, folder=migrations)
            assert applied == [NEXT, INDEX]
            for each in (first, last):
                await until(len(each.done) + 3, each.done, sending)
            for replica in replicas:
                assert (await replica.readiness.state()).problem is None
            assert_invariants(database_url)
            enough.set()
            await sending
            assert await stage.end(replicas[0], waiting.bot.id)
            await all_slots_idle(stage)
        finally:
            sending.cancel()
            for replica in replicas:
                await replica.stop()
        admitted = [waiting.bot.id, *(bot for each in users for bot in each.admitted)]
        kept = stage.rows("SELECT id, status, label FROM bots ORDER BY id")
        assert kept == [{"id": id_, "status": "DONE", "label": "none"} for id_ in sorted(admitted)]
        assert all(slot["label"] == slot["slot_name"] for slot in stage.slots())
        assert_settled(database_url)


async def all_slots_idle(stage: Stage) -> None:
    while {slot["status"] for slot in stage.slots()} != {"idle"}:
        await asyncio.sleep(0.01)


def test_migrate_names_every_applied_migration_once(database_url: str, migrations: Path) -> None:
    assert migrate(database_url, folder=migrations) == [NEXT, INDEX]
    assert migrate(database_url, folder=migrations) == []


def test_failed_migration_leaves_schema_unchanged(database_url: str, migrations: Path) -> None:
    broken = migrations / f"{NEXT}.sql"
    broken.write_text(EXPANSION + "SELECT 1 / 0;")
    with pytest.raises(MigrationFailed, match=f"{NEXT} failed and changed nothing: division"):
        migrate(database_url, folder=migrations)
    assert value(database_url, "SELECT to_regclass('labels')") is None
    broken.write_text(EXPANSION)
    assert migrate(database_url, folder=migrations) == [NEXT, INDEX]


def test_concurrent_migrations_apply_each_once(database_url: str, migrations: Path) -> None:
    applied: list[str] = []
    threads = [
        threading.Thread(target=lambda: applied.extend(migrate(database_url, folder=migrations)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == [NEXT, INDEX]


class Attempts:
    """Counts the pauses between attempts to get a lock, and acts after some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
        self.count = 0
        self._act = act
        monkeypatch.setattr(migrator.time, "sleep", self._pause)
        monkeypatch.setattr(migrator, "LOCK_TIMEOUT_S", 0.05)

    def _pause(self, _seconds: float) -> None:
        self.count += 1
        self._act(self.count)


def test_migration_waits_for_a_lock_without_blocking_replicas(
    database_url: str, migrations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two attempts the migration holds no lock, so other statements pass."""
    with psycopg.connect(database_url) as report:
        report.execute("SELECT count(*) FROM bot_pool_slots")

        def after(attempt: int) -> None:
            with psycopg.connect(database_url, options="-c lock_timeout=1ms") as replica:
                replica.execute("LOCK TABLE bots, bot_pool_slots IN ROW EXCLUSIVE MODE")
            if attempt == 3:
                report.commit()

        attempts = Attempts(monkeypatch, after)
        assert migrate(database_url, folder=migrations) == [NEXT, INDEX]
    assert attempts.count == 3


def test_blocked_migration_names_the_session_that_blocks_it(
    database_url: str, migrations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url, application_name="nightly-report") as report:
        report.execute("SELECT count(*) FROM bots")
        Attempts(monkeypatch, lambda _: None)
        with pytest.raises(MigrationFailed, match="nightly-report, idle in transaction"):
            migrate(database_url, folder=migrations, give_up_s=0.2)
    assert migrate(database_url, folder=migrations) == [NEXT, INDEX]


def test_deadlock_with_a_replica_is_retried(database_url: str, migrations: Path) -> None:
    """A replica locks the slot before the bot, the migration the bots before the slots."""
    with psycopg.connect(database_url) as replica:
        replica.execute("LOCK TABLE bot_pool_slots IN ROW EXCLUSIVE MODE")
        applied: list[str] = []
        migrating = threading.Thread(
            target=lambda: applied.extend(migrate(database_url, folder=migrations))
        )
        migrating.start()
        while not value(
            database_url,
            "SELECT count(*) FROM pg_locks WHERE relation = 'bot_pool_slots'::regclass "
            "AND mode = 'AccessExclusiveLock' AND NOT granted",
        ):
            time.sleep(0.01)
        with suppress(psycopg.errors.DeadlockDetected):  # A replica repeats its transaction.
            replica.execute("LOCK TABLE bots IN ROW EXCLUSIVE MODE")
        replica.rollback()
        migrating.join()
    assert applied == [NEXT, INDEX]


def test_killed_migration_is_repeated(database_url: str, migrations: Path) -> None:
    """Kill the process at random moments; the schema stays whole, and the next run continues."""
    slow = EXPANSION.replace("CREATE TABLE", "SELECT pg_sleep(0.1);\nCREATE TABLE")
    (migrations / f"{NEXT}.sql").write_text(slow)
    program = (
        "import sys; from pathlib import Path; from botpool.store.migrator import migrate; "
        "print('ready', flush=True); migrate(sys.argv[1], folder=Path(sys.argv[2]))"
    )
    randomness = random.Random(5)
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", program, database_url, str(migrations)], stdout=subprocess.PIPE
        ) as killed:
            assert killed.stdout is not None
            killed.stdout.readline()
            time.sleep(randomness.uniform(0, 0.25))
            killed.kill()
        has_table = value(database_url, "SELECT to_regclass('labels')") is not None
        recorded = f"SELECT count(*) FROM schema_migrations WHERE name = '{NEXT}'"
        assert value(database_url, recorded) in ({1} if has_table else {0, 1})
    migrate(database_url, folder=migrations)
    assert migrate(database_url, folder=migrations) == []
    is_valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'idx_bots_label'::regclass"
    assert value(database_url, is_valid) is True


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        (found,) = connection.execute(query).fetchone() or (None,)
    return found


def test_database_without_schema_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="botpool migrate"):
        check_schema(None)


@pytest.mark.parametrize("compatible_with", [None, "9998_another"])
def test_newer_schema_is_refused(compatible_with: str | None) -> None:
    with pytest.raises(SchemaMismatch, match="newer schema"):
        check_schema([*known(), applied_migration("9999_newer", compatible_with)])


def test_newer_schema_that_serves_this_version_is_accepted() -> None:
    newer = [applied_migration(name, known_names()[-1]) for name in ("9998_newer", "9999_newer")]
    check_schema([*known(), *newer])
    with pytest.raises(SchemaMismatch, match="9999_newer"):
        check_schema([*known(), newer[0], applied_migration("9999_newer", "9998_newer")])


def applied_migration(name: str, compatible_with: str | None = None) -> AppliedMigration:
    return AppliedMigration(name=name, compatible_with=compatible_with)


def known() -> list[AppliedMigration]:
    return [applied_migration(name) for name in known_names()]
