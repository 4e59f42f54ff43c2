"""`botpool import meeboter`: a pool of Meeboter moves to Botpool, on an emulated Coolify."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.coolify_installation import Coolify, CoolifyInstallation, coolify_installation
from tests.support.fixed_port_installation import wait_for
from tests.support.invariants import assert_settled
from tests.support.meeboter_database import CAMEL_CASE, MeeboterTables
from tests.support.postgres import TestPostgres
from tests.support.server import COMMAND

pytestmark = pytest.mark.timeout(600)

DUPLICATED = "meeboter-pool-google-meet-001"


@dataclass(slots=True, kw_only=True)
class MeeboterPool:
    """Meeboter's tables and its applications in Coolify."""

    tables: MeeboterTables
    coolify: Coolify
    uuids: dict[int, str] = field(default_factory=dict)
    """The application of each slot."""

    async def add_slot(self, name: str, status: str = "idle", bot: int | None = None) -> int:
        uuid = await self.add_application(name, running=bot is not None)
        slot = self.tables.add_slot(uuid, name, status, bot)
        self.uuids[slot] = uuid
        return slot

    async def add_application(self, name: str, *, running: bool = False) -> str:
        created = await self.coolify._call(
            "POST", "/_emulator/applications", json={"name": name, "running": running}
        )
        uuid: str = created["uuid"]
        return uuid

    async def applications(self) -> dict[str, str]:
        """Return the names of all applications by uuid."""
        return {each["uuid"]: each["name"] for each in (await self.coolify.state())["applications"]}

    async def contents(self) -> Any:
        return [self.tables.contents(), sorted((await self.applications()).items())]


@pytest.fixture
async def coolify() -> AsyncIterator[Coolify]:
    async with Coolify.emulated() as emulated:
        yield emulated


@pytest.fixture
def tables(postgres: TestPostgres) -> Iterator[MeeboterTables]:
    url = postgres.create_database()
    tables = MeeboterTables(url=url)
    tables.create()
    yield tables
    postgres.drop_database(url)


@pytest.fixture
def meeboter(coolify: Coolify, tables: MeeboterTables) -> MeeboterPool:
    return MeeboterPool(tables=tables, coolify=coolify)


@pytest.fixture
async def installed(
    coolify: Coolify, database_url: str, tmp_path: Path
) -> AsyncIterator[CoolifyInstallation]:
    async with coolify_installation(coolify, database_url, tmp_path) as installed:
        installed.settings = {**installed.settings, "pools.google-meet.max_size": "12"}
        yield installed


@pytest.fixture
async def eight_duplicates(meeboter: MeeboterPool) -> MeeboterPool:
    """Eight rows of one name, a live bot, an ended bot, two queued bots, and a foreign application.

    The first row is free, and a later row of the same name has a bot that has ended: it is kept.
    """
    tables = meeboter.tables
    live, ended = tables.add_bot("IN_CALL"), tables.add_bot("DONE")
    first = await meeboter.add_slot(DUPLICATED)
    kept = await meeboter.add_slot(DUPLICATED, "error", ended)
    for _ in range(6):
        await meeboter.add_slot(DUPLICATED)
    await meeboter.add_slot("meeboter-pool-google-meet-002", "busy", live)
    await meeboter.add_slot("meeboter-pool-google-meet-003", "error")
    await meeboter.add_slot("meeboter-pool-google-meet-004")
    await meeboter.add_application("meeboter-pool-google-meet-099")
    for priority in (100, 10):
        tables.queue_bot(tables.add_bot("DEPLOYING"), priority=priority)
    tables.queue_bot(tables.add_bot("DEPLOYING"), seconds=-60)
    assert (first, kept) == (1, 2)
    return meeboter


def command(meeboter: MeeboterPool, *options: str) -> list[str]:
    return [COMMAND, "import", "meeboter", "--database", meeboter.tables.url, *options]


async def run_import(
    installed: CoolifyInstallation, meeboter: MeeboterPool, *options: str, expected: int = 0
) -> dict[str, Any]:
    ran = await asyncio.to_thread(
        subprocess.run,
        command(meeboter, "--coolify", "--json", *options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=installed._environment(),
        cwd=installed.data_dir,
    )
    assert ran.returncode == expected, f"{ran.stdout.decode()}{ran.stderr.decode()}"
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def steps(result: dict[str, Any], kind: str) -> dict[int, str]:
    return {each["id"]: each["step"] for each in result["plan"] if each["kind"] == kind}


async def test_dry_run_shows_the_changes_and_makes_none(
    installed: CoolifyInstallation, eight_duplicates: MeeboterPool
) -> None:
    before = await eight_duplicates.contents()
    own = installed.rows("SELECT count(*) FROM pools")
    result = await run_import(installed, eight_duplicates)
    deleted = dict.fromkeys((1, 3, 4, 5, 6, 7, 8), "delete")
    assert steps(result, "slot") == {**deleted, 2: "adopt", 9: "wait", 10: "adopt", 11: "adopt"}
    assert steps(result, "bot") == {3: "queue", 4: "queue", 5: "skip"}
    assert not result["applied"]
    assert await eight_duplicates.contents() == before
    assert installed.rows("SELECT count(*) FROM pools") == own
    assert installed.rows("SELECT * FROM bots UNION ALL SELECT * FROM bots") == []


async def test_applied_import_moves_slots_and_queued_bots_once(
    installed: CoolifyInstallation, eight_duplicates: MeeboterPool
) -> None:
    meeboter = eight_duplicates
    await run_import(installed, meeboter, "--apply")
    await assert_moved(installed, meeboter)
    before = await meeboter.contents()
    again = await run_import(installed, meeboter, "--apply")
    assert again["outcomes"] == []
    assert await meeboter.contents() == before
    await assert_moved(installed, meeboter)
    await assert_serves_and_takes_over_the_live_slot(installed, meeboter)


async def assert_moved(installed: CoolifyInstallation, meeboter: MeeboterPool) -> None:
    uuids = meeboter.uuids
    slots = installed.rows("SELECT slot_name, container_id FROM bot_pool_slots ORDER BY slot_name")
    # Growth for the queued bots may have added slots without a container.
    adopted = {uuid: name for name, uuid in slots if uuid is not None}
    assert set(adopted) >= {uuids[2], uuids[10], uuids[11]}
    applications = await meeboter.applications()
    for uuid, name in adopted.items():
        assert applications[uuid] == name
    assert uuids[9] not in adopted
    assert applications[uuids[9]] == "meeboter-pool-google-meet-002"
    assert "meeboter-pool-google-meet-099" in applications.values()
    assert not {uuids[n] for n in (1, 3, 4, 5, 6, 7, 8)} & set(applications)
    rows = meeboter.tables.execute("SELECT id, status FROM bot_pool_slots ORDER BY id")
    assert rows == [(2, "botpool"), (9, "busy"), (10, "botpool"), (11, "botpool")]
    assert meeboter.tables.execute("SELECT bot_id FROM bot_pool_queue") == [(5,)]
    bots = installed.rows("SELECT correlation_id, priority FROM bots ORDER BY correlation_id")
    assert bots == [("meeboter-3", 100), ("meeboter-4", 10)]


async def assert_serves_and_takes_over_the_live_slot(
    installed: CoolifyInstallation, meeboter: MeeboterPool
) -> None:
    """Botpool has no hold on the live bot's application; after its end an import adopts it."""
    await installed.serve()
    assert set((await installed.wait_for_end()).values()) == {"DONE"}
    live = meeboter.uuids[9]
    assert await meeboter.coolify._call("GET", f"/api/v1/applications/{live}/tags") == []
    state = {each["uuid"]: each for each in (await meeboter.coolify.state())["applications"]}
    assert not state[meeboter.uuids[2]]["running"]

    meeboter.tables.execute("UPDATE bots SET status = 'DONE' WHERE id = 1")
    meeboter.tables.execute(
        "UPDATE bot_pool_slots SET status = 'idle', assigned_bot_id = NULL WHERE id = 9"
    )
    result = await run_import(installed, meeboter, "--apply", "--wait")
    assert [each["succeeded"] for each in result["outcomes"]] == [True]

    async def stopped() -> bool:
        return all(slot["status"] == "idle" for slot in await installed.slots())

    await wait_for("the reset of the adopted slot", stopped)
    assert meeboter.uuids[9] in {slot["containerId"] for slot in await installed.slots()}
    assert_settled(installed.database_url)


@pytest.mark.parametrize("renamed", [1, 2])
async def test_import_killed_in_the_middle_is_completed_by_the_next_run(
    installed: CoolifyInstallation, eight_duplicates: MeeboterPool, renamed: int
) -> None:
    meeboter = eight_duplicates
    await meeboter.coolify.fail(slowAnswer={"seconds": 30})
    before = await meeboter.applications()
    process = await asyncio.to_thread(
        subprocess.Popen,
        command(meeboter, "--coolify", "--apply"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=installed._environment(),
        cwd=installed.data_dir,
    )

    async def in_the_middle() -> bool:
        now = await meeboter.applications()
        changed = [uuid for uuid in before if now.get(uuid) != before[uuid]]
        return len(changed) >= renamed

    await wait_for("a changed application", in_the_middle)
    process.kill()
    assert process.wait() == -9
    await meeboter.coolify.fail()
    await run_import(installed, meeboter, "--apply")
    await assert_moved(installed, meeboter)


async def test_bot_taken_off_the_queue_by_a_killed_import_is_created_once(
    installed: CoolifyInstallation, meeboter: MeeboterPool
) -> None:
    """The import died after it took the bot off Meeboter's queue, then after it created the bot."""
    tables = meeboter.tables
    tables.queue_bot(tables.add_bot("DEPLOYING"))
    await run_import(installed, meeboter, "--apply")
    tables.execute("UPDATE botpool_moved_bots SET botpool_bot_id = NULL")
    result = await run_import(installed, meeboter, "--apply")
    assert [each["succeeded"] for each in result["outcomes"]] == [True]
    assert installed.rows("SELECT correlation_id FROM bots") == [("meeboter-1",)]
    data = installed.rows("SELECT bot_data FROM bots")[0][0]
    assert data["userId"] == "user-1"
    assert data["automaticLeave"] == {"waitingRoomTimeout": 60_000}


async def test_columns_in_camel_case_are_understood(
    installed: CoolifyInstallation, meeboter: MeeboterPool
) -> None:
    tables = meeboter.tables
    await meeboter.add_slot("pool-google-meet-007")
    tables.queue_bot(tables.add_bot("DEPLOYING"))
    tables.execute(CAMEL_CASE)
    await run_import(installed, meeboter, "--apply")
    assert (await meeboter.applications())[meeboter.uuids[1]] == "pool-google-meet-007"
    assert installed.rows("SELECT count(*) FROM bots") == [(1,)]


async def test_application_with_another_name_is_left_alone(
    installed: CoolifyInstallation, meeboter: MeeboterPool
) -> None:
    uuid = await meeboter.add_application("another team's database")
    meeboter.tables.add_slot(uuid, "pool-google-meet-001")
    meeboter.tables.add_slot("gone", "pool-google-meet-002")
    result = await run_import(installed, meeboter, "--apply", expected=1)
    assert [each["succeeded"] for each in result["outcomes"]] == [False, False]
    assert "another team's database" in result["outcomes"][0]["text"]
    assert (await meeboter.applications())[uuid] == "another team's database"
    assert meeboter.tables.execute("SELECT DISTINCT status FROM bot_pool_slots") == [("idle",)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--database", "postgresql:///no-such"], "--database: "),
        (["--wait"], "--wait: needs --apply"),
    ],
)
async def test_wrong_options_get_one_line(
    installed: CoolifyInstallation, meeboter: MeeboterPool, options: list[str], message: str
) -> None:
    ran = await asyncio.to_thread(
        subprocess.run,
        command(meeboter, *options),
        capture_output=True,
        text=True,
        env=installed._environment(),
        cwd=installed.data_dir,
    )
    assert ran.returncode in (1, 2)
    assert len(ran.stderr.splitlines()) == 1
    assert message in ran.stderr


async def test_database_without_meeboters_tables_is_refused(
    installed: CoolifyInstallation, meeboter: MeeboterPool
) -> None:
    meeboter.tables.execute("DROP TABLE bot_pool_queue")
    ran = await asyncio.to_thread(
        subprocess.run,
        command(meeboter),
        capture_output=True,
        text=True,
        env=installed._environment(),
        cwd=installed.data_dir,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no table bot_pool_queue" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
