"""Whatever is called in whatever order, with whatever faults: no answer that nobody planned."""

import json
import random
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botpool.emulators.coolify import EmulatedTransport, ManualClock, World
from botpool.emulators.coolify.endpoints import ENDPOINTS
from botpool.emulators.coolify.fault_kinds import KINDS
from tests.backends.emulator.emulated_coolify import HEADERS, PLACE, Coolify, at, emulated

BROKEN = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout)
PLANNED_500 = {"Server Error"}
_NAMES = """
    name description docker_registry_image_name docker_registry_image_tag tags instant_deploy
    data key value is_literal stop_grace_period project_uuid environment_name x"""
_FIELDS = st.sampled_from(_NAMES.split())
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    endpoint=st.sampled_from(ENDPOINTS),
    method=st.sampled_from(["", "GET", "PUT", "HEAD"]),
    body=st.binary(max_size=20) | _VALUES.map(lambda value: json.dumps(value).encode()),
    query=st.dictionaries(_FIELDS | st.just("take"), st.text(max_size=5), max_size=2),
    placed=st.booleans(),
)
async def test_any_request(
    endpoint: Any, method: str, body: bytes, query: dict[str, str], placed: bool
) -> None:
    async with emulated() as coolify:
        uuid = await coolify.create("first")
        if placed and endpoint.method == "POST":
            try:
                body = json.dumps({**json.loads(body), **PLACE}).encode()
            except (ValueError, TypeError):
                return
        answer = await coolify.call(
            method or endpoint.method,
            at(endpoint.path, uuid),
            content=body,
            params=query,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code < 500 or answer.json()["message"] in PLANNED_500
        coolify.wait(600)
        await coolify.state()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(["faults", "applications", "time", "state", ""]), body=_VALUES)
async def test_any_control_request(path: str, body: Any) -> None:
    async with emulated() as coolify:
        answer = await coolify.client.post(f"/_emulator/{path}", content=json.dumps(body))
        assert answer.status_code in (200, 201, 404, 405, 422)


async def _step(coolify: Coolify, chance: random.Random, uuids: list[str]) -> None:
    endpoint = chance.choice(ENDPOINTS)
    if endpoint.path == "/applications/dockerimage" and len(uuids) < 40:
        wanted = {**PLACE, "docker_registry_image_name": chance.choice(["one", "two"])}
        answer = await coolify.call("POST", endpoint.path, json=wanted)
        if answer.status_code == 201:
            uuids.append(answer.json()["uuid"])
        return
    if endpoint.path.startswith("/deployments/{uuid}"):
        listed = [*coolify.world.deployments.by_uuid] or ["none"]
        uuid = chance.choice(listed)
    else:
        uuid = chance.choice([*uuids, "none"])
    body = {"json": {"name": "x"}} if endpoint.path == "/applications/{uuid}" else {}
    answer = await coolify.call(
        endpoint.method, at(endpoint.path, uuid), params={"uuid": uuid}, **body
    )
    if answer.status_code == 500:
        assert "Server Error" in answer.text
    elif answer.status_code > 500:
        assert answer.status_code == 502


@pytest.mark.parametrize("seed", range(12))
async def test_any_sequence_with_any_faults(seed: int) -> None:
    chance = random.Random(seed)
    async with emulated(seed=seed) as coolify:
        uuids: list[str] = []
        for _ in range(300):
            coolify.wait(chance.choice([0, 0.5, 5, 60]))
            if chance.random() < 0.1:
                kind = KINDS[chance.choice([*KINDS])]
                value = {"probability": 0.3} if "probability" in kind.aims else True
                await coolify.faults(**{kind.name: value})
            if chance.random() < 0.05:
                await coolify.faults(clear=True)
            try:
                await _step(coolify, chance, uuids)
            except BROKEN:
                continue
        await _settled(coolify)


async def _settled(coolify: Coolify) -> None:
    """Without faults, and after all is stopped, nothing is left but what nobody owns."""
    await coolify.faults(clear=True)
    coolify.wait(120)
    for deployment in coolify.world.deployments.open:
        await coolify.call("POST", f"/deployments/{deployment.uuid}/cancel")
    coolify.wait(3600)
    for uuid in [*coolify.world.applications]:
        await coolify.stop(uuid)
    coolify.wait(3600)
    state = await coolify.state()
    assert state["runningContainers"] == state["orphanContainers"]
    assert state["openDeployments"] == []
    assert not any(each["running"] for each in state["applications"])
    assert {each["status"] for each in state["applications"]} <= {"exited:unhealthy"}


async def test_a_million_seconds_in_a_moment() -> None:
    """The world costs events, not time."""
    world, clock = World(), ManualClock()
    async with httpx.AsyncClient(
        transport=EmulatedTransport(world, clock), base_url="http://coolify", headers=HEADERS
    ) as client:
        clock.advance(1_000_000)
        assert (await client.get("/api/v1/version")).status_code == 200
