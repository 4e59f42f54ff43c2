"""Every agent: SIGTERM, crashes, and the wait for the stop of the container."""

import signal

from tests.agents.plan import Launcher, until
from tests.support.fake_control_plane import ControlPlane

LONG = "600"


def test_sigterm_in_a_call_lets_the_bot_leave(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(["report", "IN_CALL"], ["await leave"], ["report", "CALL_ENDED"])
    until(lambda: "IN_CALL" in plane.statuses)
    running.terminate()
    assert running.exit_code() == 0, running.output
    assert plane.statuses[-3:] == ["IN_CALL", "CALL_ENDED", "DONE"]


def test_sigterm_in_a_call_that_fails_is_no_success(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(["report", "IN_CALL"], ["await leave"], ["raise", "no upload"])
    until(lambda: "IN_CALL" in plane.statuses)
    running.terminate()
    assert running.exit_code() != 0
    assert plane.statuses[-1] == "FAILED"
    assert "no upload" in str(plane.failure_reason)


def test_agent_waits_for_sigterm_after_its_last_report(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = agent.start(BOTPOOL_WAIT_FOR_STOP_S=LONG)
    until(lambda: "DONE" in plane.statuses)
    beats = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) > beats + 2)
    assert not running.has_ended()
    running.stop()
    assert plane.statuses.count("DONE") == 1


def test_released_agent_waits_for_sigterm_before_it_exits(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.released = True
    running = agent.start(BOTPOOL_WAIT_FOR_STOP_S=LONG)
    until(lambda: plane.calls)
    running.wait_a_moment(0.2)
    assert not running.has_ended()
    running.stop()


def test_wait_for_the_stop_has_a_limit(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(BOTPOOL_WAIT_FOR_STOP_S="1")
    assert running.exit_code() == 0
    assert plane.statuses[-1] == "DONE"


def test_agent_stopped_in_its_call_does_not_wait_for_another_sigterm(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = agent.start(
        ["report", "IN_CALL"],
        ["await leave"],
        ["report", "CALL_ENDED"],
        BOTPOOL_WAIT_FOR_STOP_S=LONG,
    )
    until(lambda: "IN_CALL" in plane.statuses)
    running.terminate()
    assert running.exit_code() == 0
    assert plane.statuses[-1] == "DONE"


def test_agent_killed_in_its_call_starts_again_with_another_boot_id(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = agent.start(["report", "IN_CALL"], ["await leave"])
    until(lambda: "IN_CALL" in plane.statuses)
    running.process.send_signal(signal.SIGKILL)
    assert running.exit_code() == -signal.SIGKILL
    plane.released = True
    assert agent.start().exit_code() == 0
    first, second = (call.path for call in plane.of("slot"))
    assert first != second
    assert "DONE" not in plane.statuses
