"""Kills the replica at every step of a standby and of the hand-over to it, and starts it again.

The pool has one slot with a standby. Afterwards every bot is final and joined at most once, no
container is left over, and the pool has its standby again.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.crash_installation import CrashInstallation, ForkServer
from tests.chaos.crash_points import LEASE_S
from tests.chaos.crash_scenarios import Scenario
from tests.chaos.recording_bot import NEVER_ACCEPTS


def also_long(*points: str, long: Sequence[str]) -> list[Any]:
    """Return points for every run, and others for `make test-long`."""
    return [*points, *(pytest.param(point, marks=pytest.mark.long) for point in long)]


NEVER_S = 600.0
"""No hand-over of a test that accepts its bot ends because of a slow machine."""
READY = "SELECT run_id FROM bot_pool_slots WHERE standby = 'ready'"
HANDED_OVER = (
    "SELECT FROM bot_pool_slots WHERE phase = 'handing_over' AND run_started_at IS NOT NULL"
)


@pytest.fixture
def warm() -> Mapping[str, Any]:
    return {"handover_timeout_s": NEVER_S}


@pytest.fixture
def installation(
    fork_server: ForkServer, database_url: str, tmp_path: Path, warm: Mapping[str, Any]
) -> Iterator[CrashInstallation]:
    settings = {"pool": {"warm": {"hot": 1, **warm}}}
    with CrashInstallation.opened(fork_server, database_url, tmp_path, settings) as installation:
        yield installation
        try:
            assert fork_server.wait_for_exit(signal.SIGTERM) == 0
        finally:
            print((tmp_path / "log").read_text())  # noqa: T201 - shown when the test fails
            # A replica that stops leaves standbys to the others.
            for process in installation.processes():
                process.kill()


def crash_and_recover(installation: CrashInstallation, point: str, scenario: Scenario) -> None:
    """Run the scenario until the replica dies at the point, start another, and run it again."""
    installation.start(crash=point)
    # The replica may die before it responds, and the client cannot know whether it acted.
    with suppress(httpx.TransportError):
        scenario(installation)
    assert installation.fork_server.wait_for_exit() == -signal.SIGKILL
    installation.clock.move(LEASE_S)
    installation.start()
    scenario(installation)
    installation.await_settled()
    installation.assert_nothing_ran_twice()
    installation.wait_until(lambda: installation.rows(READY), "the standby does not come back")
    assert installation.containers() == installation.containers_of_slots()


def bot_arrives(installation: CrashInstallation) -> None:
    """A bot gets the standby, and its meeting ends."""
    if "first" not in installation.bots:
        installation.wait_until(
            lambda: installation.rows(READY) or not installation.is_alive(), "no standby is ready"
        )
    installation.post("first")
    installation.end_meetings()


def assert_done(installation: CrashInstallation, *, cold_starts: int) -> None:
    assert installation.final("first") == ("DONE", 1)
    assert installation.event_count("joined", "first") == 1
    assert installation.event_count("started", "first") == cold_starts


@pytest.mark.parametrize(
    "point",
    also_long(
        "after:start_standbys",
        "after:open_poll",
        "after:admit_to_idle_slots",
        "before:accept_assignments",
        "after:accept_assignments",
        long=[
            "within:start_standbys",
            "after:launch",
            "after:record_start",
            "before:open_poll",
            "before:admit_to_idle_slots",
        ],
    ),
)
def test_replica_killed_while_a_standby_gets_its_bot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, bot_arrives)
    assert_done(installation, cold_starts=0)


def standby_never_accepts(installation: CrashInstallation) -> None:
    """The standby gets the bot and never accepts it."""
    (installation.folder / NEVER_ACCEPTS).touch()
    bot_arrives(installation)


@pytest.mark.parametrize("warm", [{"handover_timeout_s": 0.2}])
@pytest.mark.parametrize(
    "point",
    also_long(
        "after:give_up_handover",
        "after:stop",
        "after:restart_cold",
        long=["before:give_up_handover", "before:stop", "before:restart_cold"],
    ),
)
def test_replica_killed_while_a_bot_starts_cold_instead(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, standby_never_accepts)
    assert_done(installation, cold_starts=1)


def user_cancels(installation: CrashInstallation) -> None:
    """A user stops the bot before its standby accepts it."""
    standby_never_accepts(installation)
    if installation.final("first")[0] != "CANCELLED":
        installation.wait_until(lambda: installation.rows(HANDED_OVER), "no hand-over")
    installation.stop("first")


@pytest.mark.parametrize(
    "point",
    also_long("after:end_bots", long=["before:end_bots", "after:stop", "within:free_slots"]),
)
def test_replica_killed_while_a_user_cancels_the_hand_over(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, user_cancels)
    assert installation.final("first") == ("CANCELLED", 1)
    assert installation.event_count("joined", "first") == 0
    assert installation.event_count("started", "first") == 0


def standby_is_replaced(installation: CrashInstallation) -> None:
    """The standby gets too old, and a bot gets its successor."""
    if not (installation.folder / "aged").exists():
        installation.wait_until(lambda: installation.rows(READY), "no standby is ready")
        ((former,),) = installation.rows(READY)
        (installation.folder / "aged").write_text(str(former))
        installation.clock.move(4_000)
    former = int((installation.folder / "aged").read_text())
    installation.wait_until(
        lambda: (
            installation.rows(f"{READY} AND run_id > %s", former) or not installation.is_alive()
        ),
        "the standby is not replaced",
    )
    bot_arrives(installation)


@pytest.mark.parametrize(
    "point",
    also_long(
        "after:stop_standbys", "within:end_standby", long=["before:stop_standbys", "after:stop"]
    ),
)
def test_replica_killed_while_a_standby_is_replaced(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, standby_is_replaced)
    assert_done(installation, cold_starts=0)
