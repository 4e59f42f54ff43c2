"""Entering the context: who am I, and what is waited for."""

import asyncio
import traceback

import pytest

from botpool.agent import Agent, AgentError, Released
from tests.support.fake_control_plane import (
    BOT_ID,
    CONTAINER_ID,
    TOKEN,
    ControlPlane,
    Fault,
    MakeAgent,
    Until,
)


async def test_agent_provides_bot_and_bot_data(plane: ControlPlane, make_agent: MakeAgent) -> None:
    plane.bot_data = {"language": "de", "name": "Zoë"}
    async with make_agent() as agent:
        assert agent.bot.id == BOT_ID
        assert agent.bot.meeting_url == "https://zoom.us/j/1?pwd=x"
        assert agent.bot.bot_display_name == "Nota"
        assert agent.bot.platform == "zoom"
        assert agent.bot.correlation_id == "corr-1"
        assert agent.bot.raw["status"] == "DEPLOYING"
        assert agent.bot_data == {"language": "de", "name": "Zoë"}
        assert not agent.released


async def test_identity_request_comes_first(plane: ControlPlane, make_agent: MakeAgent) -> None:
    async with make_agent() as agent:
        pass
    identity = f"/v1/agent/slot?containerId={CONTAINER_ID}&bootId={agent.boot_id}"
    assert plane.calls[0].path == identity


async def test_released_slot_raises_before_the_block(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    plane.released = True
    agent = make_agent()
    with pytest.raises(Released) as caught:
        async with agent:
            pytest.fail("the bot joined")
    assert caught.value.bot_id == BOT_ID
    assert agent.released
    assert agent.leave_requested.is_set()
    assert [call.resource for call in plane.calls] == ["slot"]


async def test_start_waits_for_unreachable_control_plane(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    plane.down()
    agent = make_agent()
    entering = asyncio.create_task(agent.__aenter__())
    done, _ = await asyncio.wait({entering}, timeout=0.1)
    assert not done
    plane.up()
    await asyncio.wait_for(entering, 30)
    assert agent.bot.id == BOT_ID
    await agent.__aexit__(None, None, None)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=503, headers={"Content-Type": "text/html"}, body=b"<h1>no server</h1>"),
        Fault(status=408),
        Fault(status=429),
        Fault(status=200, headers={"Content-Type": "text/html"}, body=b"<h1>maintenance</h1>"),
        Fault(status=200, headers={"Content-Type": "application/json"}, body=b"[]"),
        Fault(status=404, headers={"Content-Type": "text/plain"}, body=b"404 page not found"),
    ],
    ids=["500", "503", "408", "429", "not JSON", "no object", "a proxy's own 404"],
)
async def test_start_retries_after_a_response_that_is_no_refusal(
    plane: ControlPlane, make_agent: MakeAgent, fault: Fault
) -> None:
    plane.fail("slot", fault, fault)
    async with make_agent() as agent:
        assert agent.bot.id == BOT_ID
    assert not plane.faults["slot"]


async def test_start_honours_retry_after(
    plane: ControlPlane, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    plane.heartbeat_interval_ms = 1_000_000
    plane.fail("slot", Fault(status=429, headers={"Retry-After": "7"}))
    monkeypatch.setattr("botpool.agent.backoff.asyncio.sleep", note)
    async with make_agent():
        pass
    assert 7 <= waits[0] < 8


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_refusal_at_start_raises_with_its_reason(
    plane: ControlPlane, make_agent: MakeAgent, status: int
) -> None:
    problem = {"Content-Type": "application/problem+json"}
    plane.fail("slot", Fault(status=status, headers=problem, body=b'{"detail": "Not you."}'))
    with pytest.raises(AgentError, match=rf"\({status}\): Not you\."):
        async with make_agent():
            pytest.fail("the bot joined")


async def test_redirect_error_names_the_setting(plane: ControlPlane, make_agent: MakeAgent) -> None:
    plane.fail("slot", Fault(status=301, headers={"Location": "https://botpool.example/"}))
    with pytest.raises(AgentError, match=r"https://botpool.example/; set server\.public_url"):
        await make_agent().__aenter__()


async def test_malformed_identity_raises_an_error(
    plane: ControlPlane, make_agent: MakeAgent
) -> None:
    json = {"Content-Type": "application/json"}
    plane.fail("slot", Fault(status=200, headers=json, body=b'{"bot": {"id": 7}}'))
    with pytest.raises(AgentError, match="meetingUrl"):
        await make_agent().__aenter__()


@pytest.mark.parametrize("missing", ["BOTPOOL_URL", "BOTPOOL_CONTAINER_ID", "BOTPOOL_TOKEN"])
async def test_missing_variable_is_named(plane: ControlPlane, missing: str) -> None:
    environment = plane.environment()
    del environment[missing]
    with pytest.raises(AgentError, match=missing):
        Agent.from_environment(environment)


@pytest.mark.parametrize("url", ["botpool:8700", "ftp://botpool", "http://", "http://h:port"])
async def test_wrong_address_is_named(plane: ControlPlane, url: str) -> None:
    with pytest.raises(AgentError, match="BOTPOOL_URL"):
        Agent.from_environment(plane.environment() | {"BOTPOOL_URL": url})


async def test_container_id_falls_back_to_coolifys_variable(plane: ControlPlane) -> None:
    environment = plane.environment() | {"COOLIFY_RESOURCE_UUID": CONTAINER_ID}
    del environment["BOTPOOL_CONTAINER_ID"]
    async with Agent.from_environment(environment) as agent:
        assert agent.bot.id == BOT_ID


@pytest.mark.parametrize("bot_data", [None, "", "{", "[]", "{}"])
async def test_calls_carry_the_correlation_id_once_known(
    plane: ControlPlane, make_agent: MakeAgent, until: Until, bot_data: str | None
) -> None:
    environment = plane.environment()
    if bot_data is None:
        async with Agent.from_environment(environment) as agent:
            await agent.event("hello")
            await until(lambda: plane.of("heartbeat"))
        assert {call.headers.get("X-Correlation-ID") for call in plane.calls} == {"corr-1"}
        return
    async with Agent.from_environment(environment | {"BOT_DATA": bot_data}):
        pass
    first, *others = plane.calls
    assert "X-Correlation-ID" not in first.headers
    assert {call.headers["X-Correlation-ID"] for call in others} == {"corr-1"}


async def test_token_appears_in_no_error_or_log(
    plane: ControlPlane, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    plane.fail("slot", Fault(status=503), Fault(status=401))
    agent = make_agent()
    with pytest.raises(AgentError) as refused:
        await agent.__aenter__()
    with pytest.raises(AgentError) as misread:
        Agent.from_environment(plane.environment() | {"BOTPOOL_TOKEN": f"{TOKEN}\nX: y"})
    shown = [caplog.text, repr(agent)]
    for caught in (refused, misread):
        shown += [repr(caught.value), "".join(traceback.format_exception(caught.value))]
    assert TOKEN not in "".join(shown)
    assert "does not answer: HTTP 503" in caplog.text
