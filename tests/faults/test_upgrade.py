"""An installation is upgraded under load: migrate, then both versions serve, then only the new.

The migration is killed twice. It locks two tables in one transaction, in the other order than the
replicas do, and writes every slot: worse than a migration of Botpool should be.
"""

import asyncio
import shutil
import subprocess
import sys
from importlib.resources import as_file
from pathlib import Path

import pytest

from botpool.store.migrations import MIGRATIONS
from tests.chaos.recording_bot import MEETING_OVER
from tests.faults import next_version
from tests.faults.faulty_installation import FaultyInstallation, faulty_installation
from tests.support.postgres import TestPostgres

NEW = ("0901_add_labels", "0902_index_labels")
MIGRATION = """-- Add labels.
-- compatible with: 0001_initial
ALTER TABLE bots ADD COLUMN label text NOT NULL DEFAULT 'none';
ALTER TABLE bot_pool_slots ADD COLUMN label text;
UPDATE bot_pool_slots SET label = slot_name, version = version + 1;
SELECT pg_sleep(0.5);
"""
INDEX = """-- Index the labels.
-- compatible with: 0001_initial
-- no transaction
DROP INDEX CONCURRENTLY IF EXISTS idx_bots_label
-- next statement
CREATE INDEX CONCURRENTLY idx_bots_label ON bots (label)
"""


@pytest.fixture
def next_migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "next-migrations"
    with as_file(MIGRATIONS) as known:
        shutil.copytree(known, folder)
    for name, text in zip(NEW, (MIGRATION, INDEX), strict=True):
        (folder / f"{name}.sql").write_text(text)
    return folder


@pytest.mark.timeout(900)
async def test_upgrade_under_load_loses_no_bot(
    postgres: TestPostgres, tmp_path: Path, next_migrations: Path, seed: int
) -> None:
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        (installed.data_dir / MEETING_OVER).touch()  # Bots come and go.
        load = installed.clients
        posting = asyncio.create_task(load.post_until_stopped())
        await load.wait_for_accepted(6)
        old = list(installed.replicas)
        installed.command = (sys.executable, str(Path(next_version.__file__)), str(next_migrations))
        await migrate_with_interruptions(installed)
        for replica in old:
            response = await replica.readiness()
            assert response.status_code == 200, response.text
        await load.wait_for_accepted(len(load.accepted) + 6)
        await installed.add_replica()
        await load.wait_for_accepted(len(load.accepted) + 6)
        for replica in old:
            assert await replica.server.stop() == 0
            await installed.add_replica()
            await load.wait_for_accepted(len(load.accepted) + 6)
        load.stopping = True
        await posting
        await installed.wait_until_all_done()


async def migrate_with_interruptions(installed: FaultyInstallation) -> None:
    command = [*installed.command, "migrate"]
    environment = installed._environment()
    for _ in range(2):
        killed = subprocess.Popen(command, env=environment, cwd=installed.data_dir)
        await asyncio.sleep(installed.rng.uniform(0.5, 3))
        killed.kill()
        await asyncio.to_thread(killed.wait)
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, cwd=installed.data_dir, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    (applied,) = installed.rows(
        "SELECT array_agg(name ORDER BY name) FROM schema_migrations WHERE name = ANY(%s)",
        list(NEW),
    )
    assert applied == (list(NEW),)
