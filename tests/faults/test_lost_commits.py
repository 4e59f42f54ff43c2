"""A failover or a restore loses commits while the containers of the lost time keep running.

Bots of the lost time are unknown to the database afterwards. Their agents must exit or their
containers be stopped, and they must not touch the bots of the new epoch, which get other ids.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from tests.chaos.client_load import recorded_events, slots_not_idle
from tests.chaos.recording_bot import MEETING_OVER
from tests.faults.faulty_installation import WAIT_S, FaultyInstallation, faulty_installation
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.postgres_copies import Backup, Standby
from tests.support.server import FINAL, none_left

POOL = 6
LONG = pytest.mark.long


@dataclass
class LostCommits:
    """Sends bots before, in and after the lost time, and checks what becomes of each."""

    installed: FaultyInstallation
    kept: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    ended_in_lost_time: int | None = None

    async def before(self, count: int) -> None:
        await self.installed.send(count)
        self.kept = self._accepted()

    async def lost_time(self, count: int, *, end_one: bool) -> None:
        """Send bots, one of them perhaps into the slot of a bot that ends in the lost time."""
        if end_one:
            self.ended_in_lost_time = self.installed.rng.choice(sorted(self.kept))
            await self._end(self.ended_in_lost_time)
        await self.installed.send(count)
        self.lost = self._accepted() - self.kept

    async def after(self, count: int) -> None:
        await self.installed.send(count)

    async def finish(self) -> None:
        """Check the bots of the new epoch, end their meetings and check the rest."""
        installed = self.installed
        new = self._accepted() - self.kept - self.lost
        assert len(new) + len(self.kept) + len(self.lost) == len(installed.clients.accepted)
        assert new and min(new) > max(self.lost | self.kept), "an id was issued twice"
        await none_left("containers of the lost time", self._lost_runs, within_s=WAIT_S)
        early = {bot for bot, *_ in installed.endings()}
        expected = {self.ended_in_lost_time} - {None}
        assert early == expected, f"bots ended before their meetings: {installed.endings()}"
        (installed.data_dir / MEETING_OVER).touch()

        async def unfinished() -> list[str]:
            return [each for each in installed.statuses() if each not in FINAL]

        await none_left("bots that have not ended", unfinished, within_s=WAIT_S)
        await none_left("busy slots", lambda: slots_not_idle(installed), within_s=WAIT_S)
        await none_left("processes left over", installed.left_over, within_s=WAIT_S)
        ended = {bot: status for bot, status, *_ in installed.endings()}
        assert set(ended) == new | self.kept
        assert {ended[bot] for bot in ended if bot not in expected} == {"DONE"}, ended
        joined = [line.split()[1] for line in recorded_events(installed) if "joined" in line]
        assert sorted(map(int, joined)) == sorted(new | self.kept | self.lost), "joined twice"
        assert_settled(installed.database_url)
        await installed.check_with_doctor()

    def _accepted(self) -> set[int]:
        return set(self.installed.clients.accepted.values())

    async def _end(self, bot: int) -> None:
        installed = self.installed
        async with installed.client(installed.replicas[0].server) as user:
            assert (await user.delete(f"/v1/bots/{bot}")).status_code == 202

        async def occupied() -> list[tuple[object, ...]]:
            return installed.rows(
                "SELECT slot_name FROM bot_pool_slots WHERE assigned_bot_id = %s", bot
            )

        await none_left("slots of the ended bot", occupied, within_s=WAIT_S)

    async def _lost_runs(self) -> list[str]:
        """Return the processes that still run an assignment of the lost time."""
        assignments = {
            line.split()[2]
            for line in recorded_events(self.installed)
            if line.startswith("started") and int(line.split()[1]) in self.lost
        }
        tokens = [f"BOTPOOL_TOKEN=bpa.{each}." for each in assignments]
        return [
            str(process)
            for process in self.installed.processes()
            if any(token in _environment_of(process.pid) for token in tokens)
        ]


def _environment_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def switch_to(installed: FaultyInstallation, server: TestPostgres) -> None:
    """Let all replicas find another server behind the address of the database."""
    installed.database_url = server.url(installed.database_name)
    installed.postgres = server
    for replica in installed.replicas:
        replica.database.cut()


def skip_prefetched_ids(primary: str, standby: str) -> None:
    """Use up the ids that PostgreSQL logs ahead, so that the standby repeats those that follow."""
    with (
        psycopg.connect(primary, autocommit=True) as source,
        psycopg.connect(standby, autocommit=True) as copy,
    ):
        for sequence in ("bots_id_seq", "assignments_id_seq"):
            logged = _number(copy, f"SELECT last_value FROM {sequence}")
            while _number(source, f"SELECT nextval('{sequence}')") < logged:
                pass


def _number(connection: psycopg.Connection, query: LiteralString) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "end_one",
    [pytest.param(True, id="reused slot"), pytest.param(False, id="new slots", marks=LONG)],
)
async def test_promoted_standby_that_lost_commits(tmp_path: Path, seed: int, end_one: bool) -> None:
    with TestPostgres() as primary:
        async with faulty_installation(primary, tmp_path, seed=seed, pool_size=POOL) as installed:
            schedule = LostCommits(installed)
            with Standby(primary) as standby:
                await schedule.before(3)
                await asyncio.to_thread(standby.stop_receiving)
                name = installed.database_name
                skip_prefetched_ids(primary.url(name), standby.url(name))
                await schedule.lost_time(installed.rng.randint(1, 3), end_one=end_one)
                await asyncio.to_thread(primary.kill)
                await asyncio.to_thread(standby.promote)
                switch_to(installed, standby)
                await schedule.after(3)
                await schedule.finish()


@pytest.mark.timeout(900)
async def test_restored_base_backup(tmp_path: Path, seed: int) -> None:
    """The backup ends without a new timeline, so only the clock and the agents give evidence."""
    with TestPostgres() as original:
        async with faulty_installation(original, tmp_path, seed=seed, pool_size=POOL) as installed:
            schedule = LostCommits(installed)
            await schedule.before(3)
            backup = await asyncio.to_thread(Backup, original)
            with backup:
                await schedule.lost_time(3, end_one=False)
                await asyncio.to_thread(original.stop)
                await asyncio.to_thread(backup.restart)
                switch_to(installed, backup)
                await none_left("containers of the lost time", schedule._lost_runs, within_s=WAIT_S)
                await schedule.after(3)
                await schedule.finish()
