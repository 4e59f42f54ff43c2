"""`kill -9` at every step of deploy and release, and a start afterwards.

Then every bot that was accepted is final, none ran twice, no process is left, every slot is idle.

Each point is a test of its own. The client's part is a scenario that may be played again: after the
restart the client asks for everything once more, under the same keys, answered or not. The pool has
one slot, so that a second bot always waits behind the first.
"""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.chaos.crash_scenarios import (
    assert_done,
    crash_and_recover,
    failing,
    one_after_the_other,
    one_behind_the_other,
    stop_in_the_call,
    stop_in_the_queue,
    stop_while_starting,
)
from tests.chaos.crash_scene import ForkServer, Scene

Settings: TypeAlias = Mapping[str, Any]


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    fork_server = ForkServer()
    yield fork_server
    fork_server.close()


@pytest.fixture
def settings() -> Settings:
    return {}


@pytest.fixture
def scene(
    fork_server: ForkServer, database_url: str, tmp_path: Path, settings: Settings
) -> Iterator[Scene]:
    with Scene.opened(fork_server, database_url, tmp_path, settings) as scene:
        yield scene
        try:
            assert fork_server.ended(signal.SIGTERM) == 0
        finally:
            print((tmp_path / "log").read_text())  # noqa: T201 - shown when the test fails
            left = scene.processes()
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
def test_killed_while_deploying(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, one_behind_the_other)
    assert_done(scene, "first")
    assert_done(scene, "second")


@pytest.mark.parametrize("settings", [{"deploy": {"poll_interval_s": 0.05}}])
@pytest.mark.parametrize("point", ["before:observe", "after:observe"])
def test_killed_while_looking(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, one_behind_the_other)
    assert_done(scene, "first")
    assert_done(scene, "second")


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
def test_killed_while_releasing_and_handing_over(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, one_behind_the_other)
    assert_done(scene, "first")
    assert_done(scene, "second")


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
def test_killed_and_back_before_the_lease_ends(scene: Scene, point: str) -> None:
    """Agents call, and bots end, while the slot is still in the hand of the dead."""
    crash_and_recover(scene, point, one_behind_the_other, down_s=0)
    assert_done(scene, "first")
    assert_done(scene, "second")


@pytest.mark.parametrize("point", ["before:admit_to_idle_slots#2", "after:admit_to_idle_slots"])
def test_killed_while_admitting_to_an_idle_slot(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, one_after_the_other)
    assert_done(scene, "first")
    assert_done(scene, "second")


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
def test_killed_while_a_failed_deployment_is_tried_again(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, failing(1))
    assert_done(scene, "first", attempts=2)
    assert_done(scene, "second")


@pytest.mark.parametrize(
    "point", ["within:fail_bots_without_attempts", "after:fail_bots_without_attempts"]
)
def test_killed_while_a_bot_is_given_up(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, failing(2))
    assert scene.final("first") == ("FAILED", 2)
    assert scene.witnessed("joined", "first") == 0
    assert_done(scene, "second")


@pytest.mark.parametrize("settings", [{"deploy": {"attempts": 3}, "recovery": {"max_attempts": 1}}])
@pytest.mark.parametrize(
    "point",
    ["after:mark_slot_deleting", "before:delete", "after:delete", "within:remove_slot"],
)
def test_killed_while_a_broken_slot_is_deleted(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, failing(2))
    assert_done(scene, "first", attempts=3)
    assert_done(scene, "second")


@pytest.mark.parametrize("settings", [{"process": {"first_start_s": 10}}])
@pytest.mark.parametrize(
    "point", ["before:end_bots", "after:end_bots", "after:stop", "after:free_slots"]
)
def test_killed_while_a_starting_bot_is_stopped(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, stop_while_starting)
    assert scene.final("first") == ("CANCELLED", 1)
    assert scene.witnessed("started", "first") == 0


@pytest.mark.parametrize("point", ["before:cancel_queued_bot", "after:cancel_queued_bot"])
def test_killed_while_a_queued_bot_is_stopped(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, stop_in_the_queue)
    assert_done(scene, "first")
    assert scene.final("second") == ("CANCELLED", 0)
    assert scene.witnessed("started", "second") == 0


@pytest.mark.parametrize(
    "point", ["before:ask_bot_to_leave", "after:ask_bot_to_leave", "before:end_bots"]
)
def test_killed_while_a_running_bot_is_asked_to_leave(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, stop_in_the_call)
    assert_done(scene, "first")
