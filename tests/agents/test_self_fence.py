"""Every agent: with `agent.self_fence_s`, a bot that gets no answer leaves its meeting."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.agents.plan import Launcher, Options, launcher, python_bot, typescript_bot, until
from tests.agents.test_wrapper_command import shell
from tests.support.fake_control_plane import ControlPlane

Command: TypeAlias = Callable[[Options], list[str]]
FENCE = {"BOTPOOL_SELF_FENCE_S": "1"}


def test_bot_without_answers_leaves_and_exits(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(
        ["report", "IN_CALL"], ["await leave"], ["print", "left"], ["report", "CALL_ENDED"], **FENCE
    )
    until(lambda: "IN_CALL" in plane.statuses)
    plane.down()
    until(lambda: "left" in running.output)
    assert "Botpool has not answered for 1" in running.output
    plane.up()
    assert running.exit_code() == 0, running.output
    assert plane.statuses[-2:] == ["CALL_ENDED", "DONE"], "reports wait for Botpool"


def test_scheduled_bot_without_answers_does_not_join(agent: Launcher, plane: ControlPlane) -> None:
    plane.join_in_ms = 3_600_000.0
    running = agent.start(["report", "IN_CALL"], **FENCE)
    until(lambda: plane.of("heartbeat"))
    plane.down()
    until(lambda: "Botpool has not answered for 1" in running.output)
    plane.up()
    until(running.has_ended)
    assert plane.statuses == ["FAILED"] and not running.has_begun()


def test_bot_stays_without_the_setting(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(["report", "IN_CALL"], ["await leave"], ["print", "left"])
    until(lambda: "IN_CALL" in plane.statuses)
    plane.down()
    running.wait_a_moment(1.5)
    assert "left" not in running.output
    assert not running.has_ended()


@pytest.mark.parametrize("command", [python_bot, typescript_bot], ids=["python", "typescript"])
def test_bot_that_does_not_leave_is_ended(
    plane: ControlPlane, tmp_path: Path, command: Command
) -> None:
    never = ["await file", str(tmp_path / "never")]
    with launcher(plane, tmp_path, command) as agent:
        running = agent.start(["report", "IN_CALL"], never, **FENCE)
        until(lambda: "IN_CALL" in plane.statuses)
        plane.down()
        assert running.exit_code() == 75, running.output
        assert "did not leave within 1 s" in running.output


@pytest.mark.parametrize("command", [python_bot, typescript_bot], ids=["python", "typescript"])
def test_bot_that_has_left_may_finish(
    plane: ControlPlane, tmp_path: Path, command: Command
) -> None:
    uploaded = tmp_path / "uploaded"
    with launcher(plane, tmp_path, command) as agent:
        running = agent.start(
            ["await leave"], ["finishing"], ["await file", str(uploaded)], **FENCE
        )
        until(running.has_begun)
        plane.down()
        until(lambda: "the bot leaves" in running.output)
        running.wait_a_moment(1.5)
        assert not running.has_ended()
        uploaded.touch()
        plane.up()
        assert running.exit_code() == 0, running.output


def test_command_that_cannot_be_asked_to_leave_is_terminated(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    script = "trap '' TERM; echo in the meeting; while true; do sleep 0.1; done"
    running = wrapper.run(shell(script, "--leave=none"), **FENCE)
    until(lambda: "in the meeting" in running.output and plane.of("heartbeat"))
    plane.down()
    until(lambda: "did not leave within 1s" in running.output)
    plane.up()
    assert running.exit_code() == 137, running.output
