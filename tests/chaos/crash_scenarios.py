"""What clients do around a crash, and what must be so afterwards, on whatever backend.

A scenario may be played again: after the restart the client asks for everything once more, under
the same keys, answered or not.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import httpx

from tests.chaos.crash_points import LEASE_S
from tests.chaos.crash_scene import Scene

Scenario: TypeAlias = Callable[[Scene], None]

OCCUPIED = "SELECT FROM bot_pool_slots WHERE status <> 'idle'"
NOT_YET_STARTED = (
    "SELECT FROM bot_pool_slots WHERE status = 'deploying' AND start_issued_at IS NULL"
)


def crash_and_recover(scene: Scene, point: str, play: Scenario, *, down_s: float = LEASE_S) -> None:
    """Play until the control plane dies at the point, start another, and play to the end.

    Down for a lease, the new one takes at once what the dead one had in hand, before any agent
    calls: so it makes the very step again that was cut off.
    """
    scene.start(crash=point)
    # It may die before it answers. The client does not know then whether it was heard.
    with suppress(httpx.TransportError):
        play(scene)
    assert scene.fork_server.ended() == -signal.SIGKILL, "it died of something else"
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


def one_after_the_other(scene: Scene) -> None:
    scene.post("first")
    scene.end_meetings()
    scene.until(lambda: not scene.rows(OCCUPIED), "the first bot does not end")
    scene.post("second")


def failing(times: int) -> Scenario:
    """The first bot's program ends at once, that many times; the second waits behind it."""

    def play(scene: Scene) -> None:
        scene.post("first", failures=times)
        scene.post("second")
        scene.end_meetings()

    return play


def stop_while_starting(scene: Scene) -> None:
    scene.post("first")
    scene.until(lambda: not scene.rows(NOT_YET_STARTED), "it is not started")
    scene.stop("first")


def stop_in_the_queue(scene: Scene) -> None:
    scene.post("first")
    scene.post("second")
    scene.stop("second")
    scene.end_meetings()


def stop_in_the_call(scene: Scene) -> None:
    """The meeting never ends: the bot leaves because it was asked to."""
    scene.post("first")
    scene.until(lambda: scene.witnessed("joined", "first"), "it does not join")
    scene.stop("first")
