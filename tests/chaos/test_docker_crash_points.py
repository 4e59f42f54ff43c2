"""Kills the replica at every step of deploy and release on Docker, and starts it again."""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.chaos.crash_installation import CrashInstallation, ForkServer
from tests.chaos.crash_scenarios import (
    Scenario,
    assert_done,
    crash_and_recover,
    first_bot_fails,
    second_bot_waits,
    stop_in_the_call,
)
from tests.chaos.docker_crash_installation import (
    CALL_TIMEOUT_S,
    INSTALLATION,
    DockerCrashInstallation,
    event_recorder,
)
from tests.support.bot_image import PYTHON, archive
from tests.support.dockerd import Dockerd

Settings: TypeAlias = Mapping[str, Any]
IMAGE = "recording-bot:1"
DOWN_S = 3 * CALL_TIMEOUT_S
"""The duration of a lease: the next replica can take over the work at once."""

SHORT = [
    "after:create_container#2",
    "after:rename_container",
    "after:launch",
    "after:stop",
    "after:remove_container#2",
]
LONG = [
    "after:lease_slots",
    "before:ensure",
    "after:create_container",
    "after:ensure",
    "after:record_container",
    "before:launch",
    "after:start",
    "after:record_start",
    "before:mark_running",
    "after:mark_running",
    "before:stop",
    "within:free_slots",
    "after:free_slots",
    "before:remove_container#2",
    "after:launch#2",
    "after:record_start#2",
    "after:free_slots#2",
]


@pytest.fixture(scope="module")
def image(dockerd: Dockerd) -> str:
    program = Path(__file__).with_name("docker_recording_bot.py").read_bytes()
    dockerd.load(archive([IMAGE], [PYTHON, "/bot/bot.py"], {"/bot/bot.py": program}))
    return IMAGE


@pytest.fixture
def settings() -> Settings:
    return {}


@pytest.fixture
def installation(
    fork_server: ForkServer,
    dockerd: Dockerd,
    image: str,
    database_url: str,
    tmp_path: Path,
    settings: Settings,
) -> Iterator[CrashInstallation]:
    with (
        event_recorder(tmp_path) as recorder_url,
        CrashInstallation.opened(fork_server, database_url, tmp_path, settings) as installation,
    ):
        shared = {
            field.name: getattr(installation, field.name) for field in fields(CrashInstallation)
        }
        yield DockerCrashInstallation(
            **shared, dockerd=dockerd, image=image, recorder_url=recorder_url
        )
        try:
            assert fork_server.wait_for_exit(signal.SIGTERM) == 0
        finally:
            print((tmp_path / "log").read_text())  # noqa: T201 - shown when the test fails
            dockerd.remove_containers(installation=INSTALLATION)


def assert_survived(installation: CrashInstallation, point: str, scenario: Scenario) -> None:
    crash_and_recover(installation, point, scenario, down_s=DOWN_S)
    assert_done(installation, "first")


@pytest.mark.parametrize(
    "point", [*SHORT, *(pytest.param(point, marks=pytest.mark.long) for point in LONG)]
)
def test_replica_killed_during_deployment_or_hand_over(
    installation: CrashInstallation, point: str
) -> None:
    assert_survived(installation, point, second_bot_waits)
    assert_done(installation, "second")


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["before:fail_deployment", "after:stop", "after:requeue_bots", "after:reset_slot"]
)
def test_replica_killed_while_retrying_failed_deployment(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(1), down_s=DOWN_S)
    assert_done(installation, "first", attempts=2)
    assert_done(installation, "second")


@pytest.mark.long
@pytest.mark.parametrize("settings", [{"deploy": {"attempts": 3}, "recovery": {"max_attempts": 1}}])
@pytest.mark.parametrize("point", ["before:delete", "after:delete", "within:remove_slot"])
def test_replica_killed_while_deleting_broken_slot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(2), down_s=DOWN_S)
    assert_done(installation, "first", attempts=3)
    assert_done(installation, "second")


@pytest.mark.long
@pytest.mark.parametrize("point", ["after:ask_bot_to_leave", "before:end_bots"])
def test_replica_killed_while_asking_bot_to_leave(
    installation: CrashInstallation, point: str
) -> None:
    assert_survived(installation, point, stop_in_the_call)
