"""Client scenarios around a crash, and the checks after it, for any backend.

After the restart the client repeats the whole scenario under the same idempotency keys, whether or
not it received responses before.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import httpx

from tests.chaos.crash_installation import CrashInstallation
from tests.chaos.crash_points import LEASE_S

Scenario: TypeAlias = Callable[[CrashInstallation], None]

OCCUPIED = "SELECT FROM bot_pool_slots WHERE status <> 'idle'"
NOT_YET_STARTED = (
    "SELECT FROM bot_pool_slots WHERE status = 'deploying' AND start_issued_at IS NULL"
)


def crash_and_recover(
    installation: CrashInstallation, point: str, scenario: Scenario, *, down_s: float = LEASE_S
) -> None:
    """Run the scenario until the replica dies at the point, start another, and run it again.

    `down_s`: the clock advances by this time, a lease by default. The new replica then takes over
    the interrupted step at once, before any agent calls.
    """
    installation.start(crash=point)
    # The replica may die before it responds, and the client cannot know whether it acted.
    with suppress(httpx.TransportError):
        scenario(installation)
    assert installation.fork_server.wait_for_exit() == -signal.SIGKILL, (
        "the replica did not die at the point"
    )
    installation.clock.move(down_s)
    installation.start()
    scenario(installation)
    installation.await_settled()
    installation.assert_nothing_ran_twice()
    assert not installation.processes(), "a bot is left running"
    assert installation.containers() == installation.containers_of_slots(), (
        "a container has no slot"
    )


def assert_done(installation: CrashInstallation, key: str, *, attempts: int = 1) -> None:
    assert installation.final(key) == ("DONE", attempts)
    assert installation.event_count("joined", key) == 1
    assert installation.event_count("started", key) == attempts


def second_bot_waits(installation: CrashInstallation) -> None:
    installation.post("first")
    installation.post("second")
    installation.end_meetings()


def second_bot_follows(installation: CrashInstallation) -> None:
    installation.post("first")
    installation.end_meetings()
    installation.wait_until(lambda: not installation.rows(OCCUPIED), "the first bot does not end")
    installation.post("second")


def first_bot_fails(times: int) -> Scenario:
    """Return a scenario in which the first starts of the first bot fail, and a second bot waits."""

    def scenario(installation: CrashInstallation) -> None:
        installation.post("first", failures=times)
        installation.post("second")
        installation.end_meetings()

    return scenario


def stop_while_starting(installation: CrashInstallation) -> None:
    installation.post("first")
    installation.wait_until(
        lambda: not installation.rows(NOT_YET_STARTED), "the bot does not start"
    )
    installation.stop("first")


def stop_in_the_queue(installation: CrashInstallation) -> None:
    installation.post("first")
    installation.post("second")
    installation.stop("second")
    installation.end_meetings()


def stop_in_the_call(installation: CrashInstallation) -> None:
    """The meeting never ends: the bot leaves because of the request."""
    installation.post("first")
    installation.wait_until(
        lambda: installation.event_count("joined", "first"), "the bot does not join"
    )
    installation.stop("first")
