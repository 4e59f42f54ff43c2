"""The clock of the database's server jumps, with libfaketime, while replicas and bots work."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.client_load import slots_not_idle
from tests.chaos.recording_bot import MEETING_OVER
from tests.faults.faulty_installation import WAIT_S, FaultyInstallation, faulty_installation
from tests.support.faked_clock_postgres import FakedClockPostgres
from tests.support.invariants import assert_settled
from tests.support.server import FINAL, none_left

HOUR_S = 3600


@pytest.fixture
def clock_postgres() -> Iterator[FakedClockPostgres]:
    with FakedClockPostgres() as server:
        yield server


@pytest.mark.timeout(900)
async def test_clock_set_back_during_starts_delays_no_bot(
    clock_postgres: FakedClockPostgres, tmp_path: Path, seed: int
) -> None:
    """A replica dies at the same time: its leases and next steps lie hours ahead."""
    async with faulty_installation(clock_postgres, tmp_path, seed=seed) as installed:
        rng = installed.rng
        await installed.send(2)
        sending = asyncio.create_task(installed.send(4))
        await asyncio.sleep(rng.uniform(0.05, 0.6))
        installed.replicas[0].server.kill()
        clock_postgres.set_clock(-rng.randint(HOUR_S // 2, 3 * HOUR_S))
        await installed.add_replica()
        await sending
        await wait_for_recorded_jump(installed, forward=False)
        await installed.finish()


@pytest.mark.timeout(900)
async def test_clock_set_forward_ends_no_running_bot(
    clock_postgres: FakedClockPostgres, tmp_path: Path, seed: int
) -> None:
    """Bots in the queue expire, as documented; bots in their meetings stay."""
    async with faulty_installation(clock_postgres, tmp_path, seed=seed, pool_size=3) as installed:
        await installed.send(3)
        running = set(installed.clients.accepted.values())
        await asyncio.gather(*(installed.clients.post(f"queued-{each}") for each in range(2)))
        clock_postgres.set_clock(installed.rng.randint(HOUR_S, 3 * HOUR_S))

        async def waiting() -> range:
            return range(len(installed.endings()), 2)

        await none_left("queued bots that should expire", waiting, within_s=WAIT_S)
        await wait_for_recorded_jump(installed, forward=True)
        expired = {bot: code for bot, _, code, _ in installed.endings()}
        assert set(expired.values()) == {"queue_timeout"}, installed.endings()
        assert not running & set(expired), "the jump ended a running bot"
        (installed.data_dir / MEETING_OVER).touch()

        async def unfinished() -> list[str]:
            return [each for each in installed.statuses() if each not in FINAL]

        await none_left("bots that have not ended", unfinished, within_s=WAIT_S)
        await none_left("busy slots", lambda: slots_not_idle(installed), within_s=WAIT_S)
        statuses = {bot: status for bot, status, *_ in installed.endings()}
        assert {statuses[bot] for bot in running} == {"DONE"}, installed.endings()
        assert_settled(installed.database_url)
        await installed.check_with_doctor()


async def wait_for_recorded_jump(installed: FaultyInstallation, *, forward: bool) -> None:
    async def missing() -> list[str]:
        jumps = installed.rows("SELECT seconds FROM clock_jumps")
        return [] if any((seconds > 0) == forward for (seconds,) in jumps) else ["the jump"]

    await none_left("jumps that no replica has noticed", missing, within_s=WAIT_S)
