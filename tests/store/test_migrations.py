"""Migrations: a running installation is upgraded, and unknown schemas are refused."""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import as_file
from pathlib import Path

import psycopg
import pytest

from botpool.domain.errors import SchemaMismatch
from botpool.domain.ids import BotId
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from botpool.store.migrations import MIGRATIONS, check_schema, known_migrations, migrate
from tests.support.clock import Clock
from tests.support.invariants import assert_invariants, assert_settled
from tests.support.replicas import Stage, bot_request, pool

NEXT = "0002_add_labels"
EXPANSION = """
ALTER TABLE bots ADD COLUMN label text NOT NULL DEFAULT 'none';
ALTER TABLE bot_pool_slots ADD COLUMN label text;
UPDATE bot_pool_slots SET label = slot_name, version = version + 1;
CREATE INDEX idx_bots_label ON bots (label);
CREATE TABLE labels (label text PRIMARY KEY);
"""


@pytest.fixture
def migrations(tmp_path: Path) -> Iterator[Path]:
    """The migrations of this version and one more, as the next version has them."""
    folder = tmp_path / "migrations"
    with as_file(MIGRATIONS) as known:
        shutil.copytree(known, folder)
    (folder / f"{NEXT}.sql").write_text(EXPANSION)
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
            assert await asyncio.to_thread(migrate, database_url, folder=migrations) == [NEXT]
            for each in (first, last):
                await until(len(each.done) + 3, each.done, sending)
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
    assert migrate(database_url, folder=migrations) == [NEXT]
    assert migrate(database_url, folder=migrations) == []


def test_failed_migration_leaves_schema_unchanged(database_url: str, migrations: Path) -> None:
    broken = migrations / f"{NEXT}.sql"
    broken.write_text(EXPANSION + "SELECT 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(database_url, folder=migrations)
    with psycopg.connect(database_url) as connection:
        (found,) = connection.execute("SELECT to_regclass('labels')").fetchone() or (None,)
    assert found is None
    broken.write_text(EXPANSION)
    assert migrate(database_url, folder=migrations) == [NEXT]


def test_database_without_schema_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="botpool migrate"):
        check_schema(None)


def test_newer_schema_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="newer schema"):
        check_schema([*known_migrations(), "9999-from-the-future"])


def test_migrating_an_up_to_date_schema_changes_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it does not import yoyo, for which a start would have to wait."""
    monkeypatch.setitem(sys.modules, "yoyo", None)
    assert migrate(database_url) == []
