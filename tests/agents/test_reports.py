"""Every agent: status reports and events, in order, through outages."""

from pathlib import Path

import pytest

from tests.agents.plan import Launcher, Options, until
from tests.support.fake_control_plane import TOKEN, ControlPlane, Fault

CALL = (["report", "JOINING_CALL"], ["report", "IN_WAITING_ROOM"], ["report", "IN_CALL"])


def distinct(statuses: list[str]) -> list[str]:
    """Leave out repetitions: delivery is at least once, and the wrapper reports its start."""
    return [each for number, each in enumerate(statuses) if statuses[:number][-1:] != [each]]


def test_statuses_arrive_in_order_and_the_end_reports_done(
    agent: Launcher, plane: ControlPlane
) -> None:
    assert agent.start(*CALL, ["report", "CALL_ENDED"]).exit_code() == 0
    expected = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE"]
    assert distinct(plane.statuses) == expected


def test_failure_is_reported_with_its_text_and_without_the_token(
    agent: Launcher, plane: ControlPlane
) -> None:
    running = agent.start(["report", "IN_CALL"], ["raise", f"no camera for {TOKEN}"])
    assert running.exit_code() == 1
    assert plane.statuses[-2:] == ["IN_CALL", "FAILED"]
    assert "no camera for ***" in str(plane.failure_reason)


def test_reported_failure_is_the_only_end(agent: Launcher, plane: ControlPlane) -> None:
    assert agent.start(["fail", "The host refused the bot."]).exit_code() == 0
    assert [each for each in plane.statuses if each != "JOINING_CALL"] == ["FAILED"]
    assert plane.failure_reason == "The host refused the bot."


def test_long_reason_is_cut(agent: Launcher, plane: ControlPlane) -> None:
    agent.start(["fail", "x" * 5000]).exit_code()
    assert plane.failure_reason == "x" * 1000


def test_reports_survive_an_outage_in_order(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    running = agent.start(
        ["await file", str(tmp_path / "outage")],
        *CALL,
        ["event", "chat", {"text": "Grüße"}],
        ["report", "CALL_ENDED"],
        ["print", "all reported"],
    )
    until(lambda: plane.of("heartbeat"))
    plane.down()
    (tmp_path / "outage").touch()
    until(lambda: "all reported" in running.output)
    assert not running.has_ended()
    plane.up()
    assert running.exit_code() == 0, running.output
    expected = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE"]
    assert distinct(plane.statuses) == expected
    assert plane.events == [{"kind": "chat", "data": {"text": "Grüße"}}]
    kinds = [call.resource for call in plane.calls if call.resource in ("status", "events")]
    assert kinds[-3:] == ["events", "status", "status"]


def test_ten_minutes_without_control_plane_do_not_disturb_the_call(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    """A minute of the outage takes 0.1 s here: delays between retries are 600 times shorter."""
    shortened = Options(backoff_s=30 / 600)
    running = agent.start(
        ["report", "IN_CALL"],
        ["await file", str(tmp_path / "call over")],
        ["report", "CALL_ENDED"],
        options=shortened,
    )
    until(lambda: "IN_CALL" in plane.statuses)
    plane.down()
    until(lambda: "does not answer" in running.output)
    running.wait_a_moment(600 / 600)
    assert not running.has_ended()
    plane.up()
    beats = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) > beats)
    (tmp_path / "call over").touch()
    assert running.exit_code() == 0, running.output
    assert distinct(plane.statuses)[-3:] == ["IN_CALL", "CALL_ENDED", "DONE"]
    assert running.output.count("does not answer") == 1
    assert running.output.count("answers again") == 1


def test_call_that_ends_during_ten_minutes_of_outage_is_reported_afterwards(
    agent: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    running = agent.start(
        ["report", "IN_CALL"],
        ["await file", str(tmp_path / "call over")],
        ["report", "CALL_ENDED"],
        options=Options(backoff_s=30 / 600),
    )
    until(lambda: "IN_CALL" in plane.statuses)
    plane.down()
    (tmp_path / "call over").touch()
    running.wait_a_moment(600 / 600)
    assert not running.has_ended()
    plane.up()
    assert running.exit_code() == 0, running.output
    assert distinct(plane.statuses)[-3:] == ["IN_CALL", "CALL_ENDED", "DONE"]


def test_end_reason_and_artifacts_are_reported(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(
        ["end", "CALL_ENDED", "alone"], ["artifact", "recording", "s3://bucket/7.mp4", 1024]
    )
    assert running.exit_code() == 0, running.output
    ended = plane.of("status")[-2].body
    assert ended == {"status": "CALL_ENDED", "endReason": "alone"}
    (listed,) = plane.of("artifacts")
    artifact = {"kind": "recording", "location": "s3://bucket/7.mp4", "sizeBytes": 1024}
    assert listed.body == {"artifacts": [artifact]}
    resources = [call.resource for call in plane.calls if call.resource in ("status", "artifacts")]
    assert resources[-3:] == ["status", "artifacts", "status"]


@pytest.mark.parametrize("status", [429, 503])
def test_report_is_repeated_until_answered(
    agent: Launcher, plane: ControlPlane, status: int
) -> None:
    plane.fail("status", *[Fault(status=status)] * 3)
    assert agent.start(*CALL).exit_code() == 0
    assert distinct(plane.statuses) == ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "DONE"]


@pytest.mark.parametrize("status", [401, 404])
def test_refused_report_is_dropped_and_the_next_one_sent(
    agent: Launcher, plane: ControlPlane, status: int
) -> None:
    body = b'{"detail": "No."}'
    refusal = Fault(status=status, headers={"Content-Type": "application/json"}, body=body)
    plane.fail("status", refusal)
    running = agent.start(*CALL)
    assert running.exit_code() == 0
    assert distinct(plane.statuses)[-3:] == ["IN_WAITING_ROOM", "IN_CALL", "DONE"]
    assert "No." in running.output


def test_report_whose_answer_is_late_is_repeated(agent: Launcher, plane: ControlPlane) -> None:
    """The control plane has applied it: delivery is at least once."""
    plane.fail("status", Fault(status=200, body=b"{}", applied=True, late_s=3.0))
    running = agent.start(["report", "JOINING_CALL"], options=Options(timeout_s=1.0))
    assert running.exit_code() == 0, running.output
    assert plane.statuses[:2] == ["JOINING_CALL", "JOINING_CALL"]
    assert plane.statuses[-1] == "DONE"


def test_limited_events_wait_and_other_reports_overtake_them(
    agent: Launcher, plane: ControlPlane
) -> None:
    body = b'{"detail": "too many events"}'
    headers = {"Content-Type": "application/json", "Retry-After": "3600"}
    plane.fail("events", Fault(status=429, headers=headers, body=body))
    running = agent.start(
        ["event", "chat", {"n": 1}],
        ["report", "IN_CALL"],
        ["event", "chat", {"n": 2}],
        ["report", "CALL_ENDED"],
    )
    assert running.exit_code() == 0, running.output
    assert distinct(plane.statuses)[-3:] == ["IN_CALL", "CALL_ENDED", "DONE"]
    assert plane.events == []
    assert "too many events" in running.output
    assert "Dropped 2 events" in running.output


def test_limited_events_are_delivered_after_their_wait(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.fail("events", Fault(status=429, headers={"Retry-After": "1"}))
    agent.start(["event", "chat", {"n": 1}], ["report", "IN_CALL"], ["await leave"])
    until(lambda: plane.events == [{"kind": "chat", "data": {"n": 1}}])
    assert "IN_CALL" in plane.statuses
