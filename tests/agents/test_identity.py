"""Every agent: the identity request, before anything else."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.agents.plan import Launcher, Options, until
from tests.support.fake_control_plane import BOT_ID, CONTAINER_ID, TOKEN, ControlPlane, Fault

PROBLEM = {"Content-Type": "application/problem+json"}


def boot_ids(plane: ControlPlane) -> list[str]:
    return [parse_qs(urlsplit(call.path).query)["bootId"][0] for call in plane.of("slot")]


def test_agent_requests_its_identity_first(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(["report", "IN_CALL"])
    assert running.exit_code() == 0, running.output
    first = plane.calls[0]
    query = parse_qs(urlsplit(first.path).query)
    assert (first.method, first.resource) == ("GET", "slot")
    assert query["containerId"] == [CONTAINER_ID]
    assert first.headers["Authorization"] == f"Bearer {TOKEN}"
    assert {call.header("X-Correlation-ID") for call in plane.calls} == {"corr-1"}
    assert f"bot {BOT_ID} https://zoom.us/j/1?pwd=x" in running.output


def test_boot_id_is_new_for_each_start_and_the_same_in_a_retry(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.fail("slot", Fault(status=503, applied=True), Fault(status=500, applied=True))
    assert agent.start().exit_code() == 0
    assert agent.start().exit_code() == 0
    first, *repeated, second = boot_ids(plane)
    assert repeated == [first, first]
    assert second != first
    assert all(len(each) == 32 for each in (first, second))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, headers={"Retry-After": "0"}),
        Fault(status=502, body=b"<html>"),
        Fault(status=404, headers={"Content-Type": "text/plain"}, body=b"404 page not found"),
        Fault(status=200, body=b"not JSON"),
    ],
    ids=["429", "502", "404 of a proxy", "no JSON"],
)
def test_agent_asks_again_after_an_answer_that_proves_nothing(
    agent: Launcher, plane: ControlPlane, fault: Fault
) -> None:
    plane.fail("slot", fault, fault)
    assert agent.start().exit_code() == 0
    assert plane.statuses[-1] == "DONE"


def test_agent_waits_for_the_time_that_a_429_asks_for(agent: Launcher, plane: ControlPlane) -> None:
    """An hour is more than the agents grant, and more than this test waits."""
    plane.fail("slot", Fault(status=429, headers={"Retry-After": "3600"}, applied=True))
    running = agent.start(options=Options(backoff_s=0.01))
    until(lambda: plane.of("slot"))
    running.wait_a_moment(0.3)
    assert not running.has_ended()
    assert len(boot_ids(plane)) == 1


def test_agent_waits_for_an_unreachable_control_plane(agent: Launcher, plane: ControlPlane) -> None:
    plane.down()
    running = agent.start(["report", "IN_CALL"])
    until(lambda: "does not answer" in running.output)
    plane.up()
    assert running.exit_code() == 0, running.output
    assert plane.statuses[-2:] == ["IN_CALL", "DONE"]


@pytest.mark.parametrize(("status", "detail"), [(401, "No such token."), (404, "Another slot.")])
def test_refused_agent_ends_without_joining(
    agent: Launcher, plane: ControlPlane, status: int, detail: str
) -> None:
    body = f'{{"detail": "{detail}"}}'.encode()
    plane.fail("slot", Fault(status=status, headers=PROBLEM, body=body))
    running = agent.start(["print", "joined"])
    assert running.exit_code() == 1
    assert detail in running.output
    assert "joined" not in running.output
    assert TOKEN not in running.output
    assert plane.calls == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BOTPOOL_URL", None),
        ("BOTPOOL_URL", "botpool.example"),
        ("BOTPOOL_TOKEN", None),
        ("BOTPOOL_CONTAINER_ID", None),
        ("BOTPOOL_WAIT_FOR_STOP_S", "soon"),
    ],
)
def test_wrong_environment_is_one_clear_line(
    agent: Launcher, plane: ControlPlane, variable: str, value: str | None
) -> None:
    running = agent.start(**{variable: value})
    assert running.exit_code() == 1
    (line,) = running.output.splitlines()
    assert variable in line
    assert plane.requests == 0


def test_container_id_may_come_from_coolify(agent: Launcher, plane: ControlPlane) -> None:
    running = agent.start(BOTPOOL_CONTAINER_ID=None, COOLIFY_RESOURCE_UUID=CONTAINER_ID)
    assert running.exit_code() == 0, running.output


def test_released_agent_joins_nothing_and_reports_nothing(
    agent: Launcher, plane: ControlPlane
) -> None:
    plane.released = True
    running = agent.start(["print", "joined"])
    assert running.exit_code() == 0, running.output
    assert "released" in running.output
    assert "joined" not in running.output
    assert [call.resource for call in plane.calls] == ["slot"]
