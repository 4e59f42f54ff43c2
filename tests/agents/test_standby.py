"""Agents on standby: the container starts before its bot exists, and polls until it gets one."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.agents.plan import AGENTS, Launcher, Running, launcher, until
from tests.support.fake_control_plane import STANDBY_TOKEN, TOKEN, ControlPlane, Fault


@pytest.fixture(params=["typescript", "wrapper"])
def agent(
    request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path
) -> Iterator[Launcher]:
    with launcher(plane, tmp_path, AGENTS[request.param]) as launched:
        yield launched


def start_standby(agent: Launcher, *plan: list[object]) -> Running:
    return agent.start(
        *plan, BOTPOOL_TOKEN=None, BOT_DATA=None, BOTPOOL_STANDBY_TOKEN=STANDBY_TOKEN
    )


def boot_ids(plane: ControlPlane, resource: str) -> set[str]:
    return {parse_qs(urlsplit(call.path).query)["bootId"][0] for call in plane.of(resource)}


def test_standby_polls_until_it_gets_a_bot_and_accepts_it_first(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = start_standby(agent, ["report", "IN_CALL"])
    until(lambda: len(plane.of("assignment")) >= 3)
    assert {call.resource for call in plane.calls} == {"assignment"}
    plane.hands_over = True
    assert running.exit_code() == 0, running.output
    after = [call for call in plane.calls if call.resource != "assignment"]
    assert after[0].resource == "slot"
    assert {call.header("Authorization") for call in after} == {f"Bearer {TOKEN}"}
    assert plane.statuses[-2:] == ["IN_CALL", "DONE"]
    assert boot_ids(plane, "assignment") == boot_ids(plane, "slot")
    assert len(boot_ids(plane, "slot")) == 1


def test_standby_waits_with_one_long_poll(agent: Launcher, plane: ControlPlane) -> None:
    running = start_standby(agent)
    until(lambda: plane.of("assignment"))
    assert parse_qs(urlsplit(plane.of("assignment")[0].path).query)["wait"] == ["30"]
    plane.hands_over = True
    assert running.exit_code() == 0, running.output


def test_standby_asks_again_after_a_lost_answer(agent: Launcher, plane: ControlPlane) -> None:
    plane.hands_over = True
    plane.fail("assignment", Fault(status=502, applied=True), Fault(status=503, applied=True))
    running = start_standby(agent)
    assert running.exit_code() == 0, running.output
    assert len(plane.of("assignment")) == 3
    assert plane.statuses[-1] == "DONE"


def test_standby_that_gets_no_bot_exits_and_reports_nothing(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = start_standby(agent)
    until(lambda: plane.of("assignment"))
    plane.standby_should_exit = True
    running.exit_code()
    assert "on standby and gets no bot" in running.output
    assert {call.resource for call in plane.calls} == {"assignment"}


def test_bot_that_was_released_before_the_accept_does_not_run(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.hands_over = plane.released = True
    running = start_standby(agent, ["report", "IN_CALL"])
    running.exit_code()
    assert plane.statuses == []


def test_standby_ends_at_sigterm(agent: Launcher, plane: ControlPlane) -> None:
    running = start_standby(agent)
    until(lambda: plane.of("assignment"))
    running.terminate()
    running.exit_code()
    assert {call.resource for call in plane.calls} == {"assignment"}
