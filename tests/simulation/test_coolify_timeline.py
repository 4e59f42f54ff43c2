"""The timeline of the first design, in emulated time: what is slow once, and fast ever after.

The table in the docs is compared with what happens; a test that fails prints the row it needs.
"""

from pathlib import Path

import pytest

from botpool.emulators.coolify import EmulatorConfig
from tests.simulation.morning import Morning, coolify_pool

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "coolify-timeline.md"
MEETING_S = 300.0
WARM, POSTED = 20, 50


async def test_the_first_bot_takes_seven_minutes_and_a_later_one_half_a_minute(
    database_url: str,
) -> None:
    async with Morning.dawn(database_url, coolify_pool(2)) as morning:
        await morning.admit(1)
        await morning.run_until(morning.all_ended, within_s=3600)
        await morning.admit(1)
        await morning.run_until(morning.all_ended, within_s=3600)
        first, later = morning.seconds_to_running()
        assert 400 <= first <= 480
        assert 25 <= later <= 60
        assert morning.statuses() == {1: "DONE", 2: "DONE"}
        assert morning.world.deployments.pulls == {"acme/bot:1": 1}


async def top_of_the_hour(
    url: str, *, builds: int, workers: int, concurrent_deployments: int
) -> list[float]:
    """Fifty bots at once on twenty warm slots: when each was in its call, sorted."""
    nature = EmulatorConfig(concurrent_builds=builds, workers=workers)
    async with Morning.dawn(
        url,
        coolify_pool(WARM),
        nature=nature,
        stay_s=0,
        concurrent_deployments=concurrent_deployments,
    ) as morning:
        await morning.admit(WARM)
        await morning.run_until(morning.all_ended, within_s=7200)
        for _ in range(24):
            await morning.tick()
        morning.bots.stay_s = MEETING_S
        await morning.admit(POSTED, queue_timeout_ms=3_600_000)
        await morning.run_until(morning.all_ended, within_s=7200)
        assert set(morning.statuses().values()) == {"DONE"}
        assert max(morning.requests_by_minute()) <= 200
        return sorted(morning.seconds_to_running()[-POSTED:])


@pytest.mark.parametrize(
    ("builds", "workers", "ours"),
    [(20, 20, 20), (20, 4, 20), (2, 4, 4)],
    ids=["twenty builds", "twenty builds, four workers", "as Coolify comes"],
)
async def test_what_the_docs_say_of_fifty_bots_on_twenty_warm_slots(
    database_url: str,
    builds: int,
    workers: int,
    ours: int,
) -> None:
    times = await top_of_the_hour(
        database_url, builds=builds, workers=workers, concurrent_deployments=ours
    )
    measured = [times[0], times[WARM - 1], times[POSTED - 1]]
    figures = " | ".join(clock(seconds) for seconds in measured)
    row = f"| {builds} | {workers} | {ours} | {figures} |"
    # Replies cross each other as on any network: a tenth more or less is no news.
    assert measured == pytest.approx(told(builds, workers, ours), rel=0.1), f"the docs need {row}"


def told(*settings: int) -> list[float]:
    """The seconds in the row of the docs' table that begins so."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:3] == [str(setting) for setting in settings]:
            return [
                60.0 * int(minutes) + int(seconds)
                for minutes, _, seconds in (cell.partition(":") for cell in cells[3:])
            ]
    return []


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
