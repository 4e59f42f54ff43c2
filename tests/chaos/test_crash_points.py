"""`kill -9` at every step of deploy and release, and a start afterwards.

Then every bot that was accepted is final, none ran twice, no process is left, every slot is idle.

Each point is a test of its own. The client's part is a scenario that may be played again: after the
restart the client asks for everything once more, under the same keys, answered or not. The pool has
one slot, so that a second bot always waits behind the first.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
from crash_points import LEASE_S
from crash_scene import Nursery, Scene

Scenario: TypeAlias = Callable[[Scene], None]
Settings: TypeAlias = Mapping[str, Any]

OCCUPIED = "SELECT FROM bot_pool_slots WHERE status <> 'idle'"
NOT_YET_STARTED = (
    "SELECT FROM bot_pool_slots WHERE status = 'deploying' AND start_issued_at IS NULL"
)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def settings() -> Settings:
    return {}


@pytest.fixture
def scene(
    nursery: Nursery, database_url: str, tmp_path: Path, settings: Settings
) -> Iterator[Scene]:
    with Scene.opened(nursery, database_url, tmp_path, settings) as scene:
        yield scene
        try:
            assert nursery.ended(signal.SIGTERM) == 0
        finally:
            print((tmp_path / "log").read_text())  # noqa: T201 - shown when the test fails
            left = scene.processes()
            for process in left:
                process.kill()
            assert not left, f"left over: {left}"


def crash_and_recover(scene: Scene, point: str, play: Scenario, *, down_s: float = LEASE_S) -> None:
    """Play until the control plane dies at the point, start another, and play to the end.

    Down for a lease, the new one takes at once what the dead one had in hand, before any agent
    calls: so it makes the very step again that was cut off.
    """
    scene.start(crash=point)
    # It may die before it answers. The client does not know then whether it was heard.
    with suppress(httpx.TransportError):
        play(scene)
    assert scene.nursery.ended() == -signal.SIGKILL, "it died of something else"
    scene.clock.move(down_s)
    scene.start()
    play(scene)
    scene.await_settled()
    scene.assert_nothing_ran_twice()
    assert not scene.processes(), "a bot is left running"
    assert scene.containers() == scene.containers_of_slots(), "a container belongs to nobody"


def assert_done(scene: Scene, key: str, *, attempts: int = 1) -> None:
    assert scene.final(key) == ("DONE", attempts)
    assert scene.witnessed("joined", key) == 1
    assert scene.witnessed("started", key) == attempts


def one_behind_the_other(scene: Scene) -> None:
    scene.post("first")
    scene.post("second")
    scene.end_meetings()


@pytest.mark.parametrize(
    "point",
    [
        "before:enqueue_bot",
        "within:enqueue_bot",
        "after:enqueue_bot",
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
@pytest.mark.parametrize("point", ["before:look", "after:look"])
def test_killed_while_looking(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, one_behind_the_other)
    assert_done(scene, "first")
    assert_done(scene, "second")


@pytest.mark.parametrize(
    "point",
    [
        "before:end_bot",
        "after:end_bot",
        "before:stop",
        "after:stop",
        "after:look",
        "within:free_slot",
        "after:free_slot",
        "after:record_container#2",
        "after:launch#2",
        "after:record_start#2",
        "after:free_slot#2",
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
        "within:free_slot",
    ],
)
def test_killed_and_back_before_the_lease_ends(scene: Scene, point: str) -> None:
    """Agents call, and bots end, while the slot is still in the hand of the dead."""
    crash_and_recover(scene, point, one_behind_the_other, down_s=0)
    assert_done(scene, "first")
    assert_done(scene, "second")


def one_after_the_other(scene: Scene) -> None:
    scene.post("first")
    scene.end_meetings()
    scene.until(lambda: not scene.rows(OCCUPIED), "the first bot does not end")
    scene.post("second")


@pytest.mark.parametrize("point", ["before:admit_to_idle_slot#2", "after:admit_to_idle_slot"])
def test_killed_while_admitting_to_an_idle_slot(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, one_after_the_other)
    assert_done(scene, "first")
    assert_done(scene, "second")


def failing(times: int) -> Scenario:
    """The first bot's program ends at once, that many times; the second waits behind it."""

    def play(scene: Scene) -> None:
        scene.post("first", failures=times)
        scene.post("second")
        scene.end_meetings()

    return play


@pytest.mark.parametrize(
    "point",
    [
        "before:fail_deployment",
        "after:fail_deployment",
        "after:stop",
        "within:requeue_bot",
        "after:requeue_bot",
        "before:ensure#2",
        "within:reset_slot",
        "after:reset_slot",
    ],
)
def test_killed_while_a_failed_deployment_is_tried_again(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, failing(1))
    assert_done(scene, "first", attempts=2)
    assert_done(scene, "second")


@pytest.mark.parametrize("point", ["within:fail_undeployed_bot", "after:fail_undeployed_bot"])
def test_killed_while_a_bot_is_given_up(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, failing(2))
    assert scene.final("first") == ("FAILED", 2)
    assert scene.witnessed("joined", "first") == 0
    assert_done(scene, "second")


@pytest.mark.parametrize("settings", [{"deploy": {"attempts": 3}, "recovery": {"max_attempts": 1}}])
@pytest.mark.parametrize(
    "point",
    ["after:condemn_slot", "before:delete", "after:delete", "within:remove_slot"],
)
def test_killed_while_a_broken_slot_is_deleted(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, failing(2))
    assert_done(scene, "first", attempts=3)
    assert_done(scene, "second")


def stop_while_starting(scene: Scene) -> None:
    scene.post("first")
    scene.until(lambda: not scene.rows(NOT_YET_STARTED), "it is not started")
    scene.stop("first")


@pytest.mark.parametrize("settings", [{"process": {"first_start_s": 10}}])
@pytest.mark.parametrize(
    "point", ["before:end_bot", "after:end_bot", "after:stop", "after:free_slot"]
)
def test_killed_while_a_starting_bot_is_stopped(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, stop_while_starting)
    assert scene.final("first") == ("CANCELLED", 1)
    assert scene.witnessed("started", "first") == 0


def stop_in_the_queue(scene: Scene) -> None:
    scene.post("first")
    scene.post("second")
    scene.stop("second")
    scene.end_meetings()


@pytest.mark.parametrize("point", ["before:cancel_queued_bot", "after:cancel_queued_bot"])
def test_killed_while_a_queued_bot_is_stopped(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, stop_in_the_queue)
    assert_done(scene, "first")
    assert scene.final("second") == ("CANCELLED", 0)
    assert scene.witnessed("started", "second") == 0


def stop_in_the_call(scene: Scene) -> None:
    """The meeting never ends: the bot leaves because it was asked to."""
    scene.post("first")
    scene.until(lambda: scene.witnessed("joined", "first"), "it does not join")
    scene.stop("first")


@pytest.mark.parametrize(
    "point", ["before:ask_bot_to_leave", "after:ask_bot_to_leave", "before:end_bot"]
)
def test_killed_while_a_running_bot_is_asked_to_leave(scene: Scene, point: str) -> None:
    crash_and_recover(scene, point, stop_in_the_call)
    assert_done(scene, "first")
