"""Scheduled bots: the agent waits for the join time and asks for permission to join."""

import pytest

from tests.agents.plan import Launcher, until
from tests.support.fake_control_plane import ControlPlane, Fault

HOUR_MS = 3_600_000.0
IN_CALL = ["report", "IN_CALL"]


def test_bot_waits_for_its_time_which_a_heartbeat_may_move(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.join_in_ms = HOUR_MS
    running = agent.start(IN_CALL)
    until(lambda: len(plane.of("heartbeat")) >= 3)
    assert plane.statuses == [] and not running.has_begun()
    plane.moved_join_in_ms = 0
    assert running.exit_code() == 0, running.output
    assert plane.statuses == ["JOINING_CALL", "IN_CALL", "DONE"]


def test_answer_may_be_a_new_time(agent: Launcher, plane: ControlPlane) -> None:
    plane.join_in_ms = 0
    plane.permissions.append({"applied": False, "joinInMs": 30.0})
    plane.permissions.append({"applied": False, "joinInMs": HOUR_MS})
    running = agent.start(IN_CALL)
    until(lambda: len(plane.statuses) == 2)
    asked = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) >= asked + 3)
    assert plane.statuses == ["JOINING_CALL"] * 2 and not running.has_begun()
    plane.moved_join_in_ms = 0
    assert running.exit_code() == 0, running.output
    assert plane.statuses == [*["JOINING_CALL"] * 3, "IN_CALL", "DONE"]


def test_answer_may_be_to_exit(agent: Launcher, plane: ControlPlane) -> None:
    plane.join_in_ms = 0
    plane.permissions.append({"applied": False, "shouldExit": True})
    running = agent.start(IN_CALL)
    until(running.has_ended)
    assert plane.statuses == ["JOINING_CALL"]


def test_cancelled_bot_does_not_join(agent: Launcher, plane: ControlPlane) -> None:
    plane.join_in_ms, plane.should_exit = HOUR_MS, True
    running = agent.start(IN_CALL)
    until(running.has_ended)
    assert plane.statuses == []


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(status=200, late_s=3.0)])
def test_bot_without_an_answer_joins(agent: Launcher, plane: ControlPlane, fault: Fault) -> None:
    plane.join_in_ms = 0
    plane.fail("status", fault)
    running = agent.start(IN_CALL)
    assert running.exit_code() == 0, running.output
    assert plane.statuses == ["JOINING_CALL", "IN_CALL", "DONE"], "reported again"
    assert "the bot joins" in running.output


def test_container_that_is_stopped_before_the_time_fails_its_bot(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.join_in_ms = HOUR_MS
    running = agent.start(IN_CALL)
    until(lambda: plane.of("heartbeat"))
    plane.should_leave = True
    until(running.has_ended)
    assert plane.statuses == ["FAILED"] and not running.has_begun()
    assert plane.failure_reason == "The container was stopped before the bot's join time."
