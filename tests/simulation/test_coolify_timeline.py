"""Start times on an emulated Coolify, compared with the table in the documentation.

A failing test prints the row that the table needs.
"""

from pathlib import Path

import pytest

from botpool.emulators.coolify import EmulatorConfig
from tests.simulation.coolify_simulation import CoolifySimulation, coolify_pool

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "coolify-timeline.md"
MEETING_S = 300.0
WARM = 50
SPARE_WORKERS = 4
"""Coolify's workers beyond the concurrent builds, for stops."""


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


async def start_times_of_fifty_warm_bots(
    url: str, *, builds: int, requests_per_minute: int
) -> list[float]:
    """Request fifty bots at once on fifty warm slots; return their sorted start times."""
    emulator_config = EmulatorConfig(
        start_s=(5.0, 12.0),
        pick_up_s=(0.0, 3.0),
        concurrent_builds=builds,
        workers=builds + SPARE_WORKERS,
        requests_per_minute=requests_per_minute,
    )
    async with CoolifySimulation.start(
        url,
        coolify_pool(WARM),
        emulator_config=emulator_config,
        call_s=0,
        concurrent_deployments=builds + 2,
    ) as simulation:
        await simulation.admit(WARM)
        await simulation.run_until(simulation.all_ended, within_s=7200, tick_s=10)
        await simulation.tick(120)
        simulation.bots.call_s = MEETING_S
        await simulation.admit(WARM)
        await simulation.run_until(
            lambda: len(simulation.seconds_to_running()) == 2 * WARM, within_s=7200, tick_s=1
        )
        assert max(simulation.requests_by_minute()) <= requests_per_minute
        return sorted(simulation.seconds_to_running()[-WARM:])


@pytest.mark.parametrize(
    ("builds", "requests_per_minute"),
    [(2, 200), (20, 200), (4, 1000), (8, 1000), (12, 1000), (20, 1000)],
)
async def test_start_times_of_fifty_warm_bots_match_the_documentation(
    database_url: str, builds: int, requests_per_minute: int
) -> None:
    times = await start_times_of_fifty_warm_bots(
        database_url, builds=builds, requests_per_minute=requests_per_minute
    )
    measured = [times[0], times[19], times[49]]
    figures = " | ".join(minutes_and_seconds(seconds) for seconds in measured)
    row = f"| {builds} | {requests_per_minute} | {figures} |"
    # The order of responses varies, so a difference of a fifth, or of five seconds, is allowed.
    assert measured == pytest.approx(documented(builds, requests_per_minute), rel=0.2, abs=5), (
        f"docs/explanation/coolify-timeline.md needs {row}"
    )


def documented(*settings: int) -> list[float]:
    """Return the seconds in the documented row for these settings."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[: len(settings)] == [str(setting) for setting in settings]:
            return [
                60.0 * int(minutes) + int(seconds)
                for minutes, _, seconds in (cell.partition(":") for cell in cells[len(settings) :])
            ]
    return []


def minutes_and_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
