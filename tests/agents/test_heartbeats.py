"""Every agent: heartbeats, and the instructions and progress that they carry."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.agents.plan import Launcher, until
from tests.support.fake_control_plane import BOT_ID, ControlPlane, Fault

JSON = {"Content-Type": "application/json"}


def test_first_heartbeat_is_immediate_then_follows_the_interval_of_the_server(
    agent: Launcher, plane: ControlPlane
) -> None:
    stay = ["await leave"]
    running = agent.start(stay)
    until(lambda: len(plane.of("heartbeat")) >= 5 and running.has_begun())
    assert {call.path for call in plane.of("heartbeat")} == {f"/v1/agent/bots/{BOT_ID}/heartbeat"}
    running.terminate()
    assert running.exit_code() == 0

    plane.calls.clear()
    plane.heartbeat_interval_ms = 3_600_000
    running = agent.start(["report", "IN_CALL"], stay)
    until(lambda: plane.of("heartbeat") and "IN_CALL" in plane.statuses)
    running.wait_a_moment(0.2)
    assert len(plane.of("heartbeat")) == 1


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_no_answer_to_a_heartbeat_ends_the_call(
    agent: Launcher, plane: ControlPlane, status: int
) -> None:
    plane.fail("heartbeat", *[Fault(status=status, headers=JSON, body=b"{}")] * 3)
    running = agent.start(["await leave"])
    until(lambda: len(plane.of("heartbeat")) >= 2)
    assert not running.has_ended()


def test_leave_request_reaches_the_bot_and_heartbeats_continue(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    running = agent.start(
        ["report", "IN_CALL"],
        ["await leave"],
        ["print", "leaving"],
        ["await file", str(tmp_path / "uploaded")],
        ["report", "CALL_ENDED"],
    )
    until(lambda: "IN_CALL" in plane.statuses)
    assert "leaving" not in running.output
    plane.should_leave = True
    until(lambda: "leaving" in running.output)
    beats = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) > beats + 2)
    (tmp_path / "uploaded").touch()
    assert running.exit_code() == 0, running.output
    assert plane.statuses[-3:] == ["IN_CALL", "CALL_ENDED", "DONE"]


def test_instruction_to_exit_ends_the_bot_without_further_reports(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = agent.start(
        ["report", "IN_CALL"], ["await exit"], ["report", "CALL_ENDED"], ["print", "stopped"]
    )
    until(lambda: "IN_CALL" in plane.statuses)
    plane.should_exit = True
    assert running.exit_code() == 0, running.output
    assert "stopped" in running.output
    assert plane.statuses[-1] == "IN_CALL"


def test_instruction_to_exit_drops_reports_that_wait(agent: Launcher, plane: ControlPlane) -> None:
    plane.fail("status", *[Fault(status=503)] * 10_000)
    running = agent.start(["report", "IN_CALL"], ["await exit"])
    until(running.has_begun)
    plane.should_exit = True
    assert running.exit_code() == 0, running.output
    assert plane.statuses == []


def test_heartbeat_carries_progress_and_the_finishing_phase(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    def bodies() -> list[object]:
        return [call.body for call in plane.of("heartbeat")]

    running = agent.start(
        ["await file", str(tmp_path / "call over")],
        ["finishing"],
        ["await file", str(tmp_path / "first half")],
        ["progress", {"bytesUploaded": 512}],
        ["await leave"],
    )
    until(lambda: len(bodies()) >= 2)
    assert set(map(str, bodies())) == {"None"}
    (tmp_path / "call over").touch()
    until(lambda: {"phase": "finishing"} in bodies())
    (tmp_path / "first half").touch()
    until(lambda: {"phase": "finishing", "progress": {"bytesUploaded": 512}} in bodies())
    running.terminate()
    assert running.exit_code() == 0


def test_finishing_phase_is_sent_at_once(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    plane.heartbeat_interval_ms = 3_600_000
    agent.start(["await file", str(tmp_path / "call over")], ["finishing"], ["await leave"])
    until(lambda: plane.of("heartbeat"))
    (tmp_path / "call over").touch()
    until(lambda: len(plane.of("heartbeat")) == 2)
    assert plane.of("heartbeat")[1].body == {"phase": "finishing"}


def test_heartbeat_carries_the_time_of_the_last_media(agent: Launcher, plane: ControlPlane) -> None:
    def times() -> list[datetime]:
        bodies = [call.body or {} for call in plane.of("heartbeat")]
        return [datetime.fromisoformat(body["lastMediaAt"]) for body in bodies if body]

    started_at = datetime.now(UTC).replace(microsecond=0)
    agent.start(["media"], ["await leave"])
    until(times)
    assert started_at <= times()[0] <= datetime.now(UTC)


def test_commands_reach_the_bot_once_in_order_and_are_acknowledged(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    """A heartbeat repeats commands until they are acknowledged, also if its answer is lost."""
    running = agent.start(
        ["await file", str(tmp_path / "listening")], ["commands"], ["await leave"]
    )
    plane.commands = [{"id": n, "kind": "chat", "data": {"text": f"hello {n}"}} for n in (3, 5)]
    until(running.has_begun)
    beats = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) > beats + 3)
    assert plane.acknowledged == set(), "nothing is acknowledged before the bot listens"
    plane.fail("heartbeat", Fault(status=500, applied=True))
    (tmp_path / "listening").touch()
    until(lambda: plane.acknowledged == {3, 5})
    plane.commands.append({"id": 8, "kind": "chat", "data": {"text": "bye"}})
    until(lambda: plane.acknowledged == {3, 5, 8})
    beats = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) > beats + 3)
    running.terminate()
    assert running.exit_code() == 0
    lines = [line for line in running.output.splitlines() if line.startswith("command")]
    assert lines == ["command 3 chat hello 3", "command 5 chat hello 5", "command 8 chat bye"]
    assert "acknowledged" not in (plane.of("heartbeat")[-1].body or {})
