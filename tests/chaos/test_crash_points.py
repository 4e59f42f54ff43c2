"""Kills the replica at every step of deploy and release, and starts it again.

Afterwards every accepted bot is final, no bot ran twice, no process is left and every slot is idle.
The pool has one slot, so that a second bot always waits behind the first.
"""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.chaos.crash_installation import CrashInstallation, ForkServer
from tests.chaos.crash_scenarios import (
    assert_done,
    crash_and_recover,
    first_bot_fails,
    second_bot_follows,
    second_bot_waits,
    stop_in_the_call,
    stop_in_the_queue,
    stop_while_starting,
)

Settings: TypeAlias = Mapping[str, Any]


@pytest.fixture
def settings() -> Settings:
    return {}


@pytest.fixture
def installation(
    fork_server: ForkServer, database_url: str, tmp_path: Path, settings: Settings
) -> Iterator[CrashInstallation]:
    with CrashInstallation.opened(fork_server, database_url, tmp_path, settings) as installation:
        yield installation
        try:
            assert fork_server.wait_for_exit(signal.SIGTERM) == 0
        finally:
            print((tmp_path / "log").read_text())  # noqa: T201 - shown when the test fails
            left = installation.processes()
            for process in left:
                process.kill()
            assert not left, f"left over: {left}"


@pytest.mark.parametrize(
    "point",
    [
        "before:enqueue_bots",
        "within:enqueue_bots",
        "after:enqueue_bots",
        "after:lease_slots",
        "before:ensure",
        "after:ensure",
        "after:record_container",
        "after:launch",
        "after:start",
        "after:record_start",
        "before:mark_running",
        "after:mark_running",
        "before:report_status",
        "after:report_status",
    ],
)
def test_replica_killed_during_deployment(installation: CrashInstallation, point: str) -> None:
    crash_and_recover(installation, point, second_bot_waits)
    assert_done(installation, "first")
    assert_done(installation, "second")


@pytest.mark.parametrize("settings", [{"deploy": {"poll_interval_s": 0.05}}])
@pytest.mark.parametrize("point", ["before:observe", "after:observe"])
def test_replica_killed_while_observing(installation: CrashInstallation, point: str) -> None:
    crash_and_recover(installation, point, second_bot_waits)
    assert_done(installation, "first")
    assert_done(installation, "second")


@pytest.mark.parametrize(
    "point",
    [
        "before:end_bots",
        "after:end_bots",
        "before:stop",
        "after:stop",
        "after:observe",
        "within:free_slots",
        "after:free_slots",
        "after:record_container#2",
        "after:launch#2",
        "after:record_start#2",
        "after:free_slots#2",
    ],
)
def test_replica_killed_during_release_or_hand_over(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, second_bot_waits)
    assert_done(installation, "first")
    assert_done(installation, "second")


@pytest.mark.parametrize(
    "point",
    [
        "after:lease_slots",
        "after:launch",
        "after:start",
        "after:stop",
        "within:free_slots",
    ],
)
def test_replica_restarted_before_the_lease_ends(
    installation: CrashInstallation, point: str
) -> None:
    """Agents call and bots end while the dead replica still has the lease of the slot."""
    crash_and_recover(installation, point, second_bot_waits, down_s=0)
    assert_done(installation, "first")
    assert_done(installation, "second")


@pytest.mark.parametrize("point", ["before:admit_to_idle_slots#2", "after:admit_to_idle_slots"])
def test_replica_killed_while_admitting_to_idle_slot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, second_bot_follows)
    assert_done(installation, "first")
    assert_done(installation, "second")


@pytest.mark.parametrize(
    "point",
    [
        "before:fail_deployment",
        "after:fail_deployment",
        "after:stop",
        "within:requeue_bots",
        "after:requeue_bots",
        "before:ensure#2",
        "within:reset_slot",
        "after:reset_slot",
    ],
)
def test_replica_killed_while_retrying_failed_deployment(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(1))
    assert_done(installation, "first", attempts=2)
    assert_done(installation, "second")


@pytest.mark.parametrize(
    "point", ["within:fail_bots_without_attempts", "after:fail_bots_without_attempts"]
)
def test_replica_killed_while_failing_bot_without_attempts(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(2))
    assert installation.final("first") == ("FAILED", 2)
    assert installation.event_count("joined", "first") == 0
    assert_done(installation, "second")


@pytest.mark.parametrize("settings", [{"deploy": {"attempts": 3}, "recovery": {"max_attempts": 1}}])
@pytest.mark.parametrize(
    "point",
    ["after:mark_slot_deleting", "before:delete", "after:delete", "within:remove_slot"],
)
def test_replica_killed_while_deleting_broken_slot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(2))
    assert_done(installation, "first", attempts=3)
    assert_done(installation, "second")


@pytest.mark.parametrize("settings", [{"process": {"first_start_s": 600}}])
@pytest.mark.parametrize(
    "point", ["before:end_bots", "after:end_bots", "after:stop", "after:free_slots"]
)
def test_replica_killed_while_cancelling_starting_bot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, stop_while_starting)
    assert installation.final("first") == ("CANCELLED", 1)
    assert installation.event_count("started", "first") == 0


@pytest.mark.parametrize("point", ["before:cancel_queued_bot", "after:cancel_queued_bot"])
def test_replica_killed_while_cancelling_queued_bot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, stop_in_the_queue)
    assert_done(installation, "first")
    assert installation.final("second") == ("CANCELLED", 0)
    assert installation.event_count("started", "second") == 0


@pytest.mark.parametrize(
    "point", ["before:ask_bot_to_leave", "after:ask_bot_to_leave", "before:end_bots"]
)
def test_replica_killed_while_asking_bot_to_leave(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, stop_in_the_call)
    assert_done(installation, "first")
