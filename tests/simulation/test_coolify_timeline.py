"""Start times on an emulated Coolify, compared with the table in the documentation.

A failing test prints the row that the table needs.
"""

from pathlib import Path

import pytest

from botpool.emulators.coolify import EmulatorConfig
from tests.simulation.coolify_simulation import CoolifySimulation, coolify_pool

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "coolify-timeline.md"
MEETING_S = 300.0
WARM, REQUESTED = 20, 50


async def test_first_bot_starts_in_seven_minutes_and_later_one_in_half_a_minute(
    database_url: str,
) -> None:
    async with CoolifySimulation.start(database_url, coolify_pool(2)) as simulation:
        await simulation.admit(1)
        await simulation.run_until(simulation.all_ended, within_s=3600)
        await simulation.admit(1)
        await simulation.run_until(simulation.all_ended, within_s=3600)
        first, later = simulation.seconds_to_running()
        assert 400 <= first <= 480
        assert 25 <= later <= 60
        assert simulation.statuses() == {1: "DONE", 2: "DONE"}
        assert simulation.coolify.deployments.pulls == {"acme/bot:1": 1}


async def start_times_of_fifty_bots(
    url: str, *, builds: int, workers: int, concurrent_deployments: int
) -> list[float]:
    """Request fifty bots at once on twenty warm slots; return their sorted start times."""
    emulator_config = EmulatorConfig(concurrent_builds=builds, workers=workers)
    async with CoolifySimulation.start(
        url,
        coolify_pool(WARM),
        emulator_config=emulator_config,
        call_s=0,
        concurrent_deployments=concurrent_deployments,
    ) as simulation:
        await simulation.admit(WARM)
        await simulation.run_until(simulation.all_ended, within_s=7200)
        for _ in range(24):
            await simulation.tick()
        simulation.bots.call_s = MEETING_S
        await simulation.admit(REQUESTED, queue_timeout_ms=3_600_000)
        await simulation.run_until(simulation.all_ended, within_s=7200)
        assert set(simulation.statuses().values()) == {"DONE"}
        assert max(simulation.requests_by_minute()) <= 200
        return sorted(simulation.seconds_to_running()[-REQUESTED:])


@pytest.mark.parametrize(
    ("builds", "workers", "concurrent_starts"),
    [(20, 20, 20), (20, 4, 20), (2, 4, 4)],
    ids=["twenty builds", "twenty builds, four workers", "Coolify defaults"],
)
async def test_start_times_of_fifty_bots_match_the_documentation(
    database_url: str,
    builds: int,
    workers: int,
    concurrent_starts: int,
) -> None:
    times = await start_times_of_fifty_bots(
        database_url, builds=builds, workers=workers, concurrent_deployments=concurrent_starts
    )
    measured = [times[0], times[WARM - 1], times[REQUESTED - 1]]
    figures = " | ".join(minutes_and_seconds(seconds) for seconds in measured)
    row = f"| {builds} | {workers} | {concurrent_starts} | {figures} |"
    # The order of responses varies, so a difference of a tenth is allowed.
    assert measured == pytest.approx(documented(builds, workers, concurrent_starts), rel=0.1), (
        f"docs/explanation/coolify-timeline.md needs {row}"
    )


def documented(*settings: int) -> list[float]:
    """Return the seconds in the documented row for these settings."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:3] == [str(setting) for setting in settings]:
            return [
                60.0 * int(minutes) + int(seconds)
                for minutes, _, seconds in (cell.partition(":") for cell in cells[3:])
            ]
    return []


def minutes_and_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
