"""The database refuses to work: read-only, full disk, no connections, ended sessions, locks."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg import sql

from tests.faults.faulty_installation import (
    FRESHNESS_S,
    FaultyInstallation,
    FaultyReplica,
    assert_no_internal_error,
    faulty_installation,
)
from tests.support.components import missing
from tests.support.postgres import TestPostgres
from tests.support.server import none_left

FAULT_S = 1.5 * FRESHNESS_S
BODY = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}
SMALL_DISK_MB = 64
MAX_CONNECTIONS = 40


@contextmanager
def sessions_changed(installed: FaultyInstallation, change: str, undo: str) -> Iterator[None]:
    """Apply a setting to all new sessions of the database, and end the present ones."""
    with psycopg.connect(installed.postgres.url(), autocommit=True) as server:
        name = sql.Identifier(installed.database_name)
        server.execute(sql.SQL(change).format(name))
        installed.end_sessions(server)
        try:
            yield
        finally:
            server.execute(sql.SQL(undo).format(name))
            installed.end_sessions(server)


async def post_directly(installed: FaultyInstallation, replica: FaultyReplica) -> httpx.Response:
    async with installed.client(replica.server) as user:
        return await user.post("/v1/bots", json=BODY)


async def assert_refused(installed: FaultyInstallation, kind: str) -> None:
    """Check that requests get their own problem and change nothing."""
    before = installed.statuses()
    for replica in installed.replicas:
        response = await post_directly(installed, replica)
        assert_no_internal_error([response])
        assert response.json()["type"] == f"urn:botpool:problem:{kind}", response.text
    assert installed.statuses() == before


@pytest.mark.timeout(600)
async def test_read_only_database_ends_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        await installed.send(3)
        with sessions_changed(
            installed,
            "ALTER DATABASE {} SET default_transaction_read_only = on",
            "ALTER DATABASE {} RESET default_transaction_read_only",
        ):
            for replica in installed.replicas:
                await replica.wait_until_not_ready(naming="accepts no writes")
            await assert_refused(installed, "database-read-only")
            await asyncio.sleep(FAULT_S)
        await installed.send(1)
        await installed.finish()


@pytest.fixture
def small_disk(postgres: TestPostgres) -> Iterator[Path]:
    """A file system of its own for one database, so that the test fills nothing else."""
    folder = postgres.directory / "small-disk"
    folder.mkdir()
    options = f"size={SMALL_DISK_MB}m,uid={postgres.owner.uid},gid={postgres.owner.gid},mode=700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        folder.rmdir()
        missing("a small disk", "run the tests as root, which may mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture
def small_database_url(postgres: TestPostgres, small_disk: Path) -> Iterator[str]:
    name = small_disk.name.replace("-", "_")
    with psycopg.connect(postgres.url(), autocommit=True) as server:
        server.execute(
            sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(
                sql.Identifier(name), str(small_disk)
            )
        )
        server.execute(sql.SQL("CREATE DATABASE {0} TABLESPACE {0}").format(sql.Identifier(name)))
        yield postgres.url(name)
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        server.execute(sql.SQL("DROP TABLESPACE {}").format(sql.Identifier(name)))


@pytest.mark.timeout(600)
async def test_full_disk_ends_no_bot(
    postgres: TestPostgres, small_disk: Path, small_database_url: str, tmp_path: Path, seed: int
) -> None:
    async with faulty_installation(
        postgres, tmp_path, seed=seed, database_url=small_database_url
    ) as installed:
        await installed.send(3)
        ballast = small_disk / "ballast"
        fill(ballast)
        for replica in installed.replicas:
            await replica.wait_until_not_ready(naming="disk is full")
        for _ in range(3):
            response = await post_directly(installed, installed.replicas[0])
            assert response.status_code in (201, 503), response.text
            if response.status_code == 201:
                installed.clients.accepted[f"late-{response.json()['bot']['id']}"] = (
                    response.json()["bot"]["id"]
                )
        await asyncio.sleep(FAULT_S)
        ballast.unlink()
        await installed.send(1)
        await installed.finish()


def fill(path: Path) -> None:
    """Write until no space is left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 65_536)
        except OSError:
            pass
        try:
            while True:
                file.write(b"\0")
        except OSError:
            pass


@pytest.mark.timeout(600)
async def test_terminated_sessions_end_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        sending = asyncio.create_task(installed.send(5))
        with psycopg.connect(postgres.url(), autocommit=True) as server:
            for _ in range(20):
                await asyncio.sleep(installed.rng.uniform(0.05, 0.6))
                installed.end_sessions(server, share=installed.rng.uniform(0.2, 1.0))
        await sending
        await installed.finish()


@pytest.fixture
def own_postgres() -> Iterator[TestPostgres]:
    with TestPostgres(settings={"max_connections": str(MAX_CONNECTIONS)}) as server:
        yield server


@pytest.mark.timeout(600)
async def test_exhausted_connections_end_no_bot(
    own_postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    """Other programs take every connection that the replicas lose."""
    async with faulty_installation(own_postgres, tmp_path, seed=seed) as installed:
        await installed.send(3)
        with psycopg.connect(own_postgres.url(), autocommit=True) as server, ExitStack() as taken:
            loop = asyncio.get_running_loop()
            ends_at = loop.time() + FAULT_S
            refused: set[str] = set()
            while loop.time() < ends_at or "database-too-many-connections" not in refused:
                installed.end_sessions(server)
                take_all_connections(own_postgres, taken)
                replica = installed.rng.choice(installed.replicas)
                response = await post_directly(installed, replica)
                assert_no_internal_error([response])
                refused.add(response.json()["type"].removeprefix("urn:botpool:problem:"))
            for replica in installed.replicas:
                await replica.wait_until_not_ready()
        await installed.send(1)
        await installed.finish()


def take_all_connections(postgres: TestPostgres, taken: ExitStack) -> None:
    try:
        while True:
            taken.enter_context(psycopg.connect(postgres.url()))
    except psycopg.OperationalError:
        pass  # The server has no connection left.


async def unready(replicas: list[FaultyReplica]) -> list[str]:
    responses = [await replica.readiness() for replica in replicas]
    return [response.text for response in responses if response.status_code != 200]


@pytest.mark.timeout(600)
async def test_locked_tables_delay_and_end_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    """A foreign transaction locks the tables of heartbeats and slots."""
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        await installed.send(3)
        with psycopg.connect(installed.database_url) as foreign:
            foreign.execute("LOCK TABLE bot_heartbeats, bots IN ACCESS EXCLUSIVE MODE")
            response = await post_directly(installed, installed.replicas[0])
            assert_no_internal_error([response])
            assert response.json()["type"] in (
                "urn:botpool:problem:database-lock-timeout",
                "urn:botpool:problem:database-statement-timeout",
            ), response.text
            await asyncio.sleep(FAULT_S)
        await none_left(
            "replicas that are not ready", lambda: unready(installed.replicas), within_s=60
        )
        await installed.finish()
