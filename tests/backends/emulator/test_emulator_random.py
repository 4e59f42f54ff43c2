"""Random calls and faults never cause an unplanned response."""

import json
import random
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botpool.emulators.coolify import EmulatedClock, EmulatedCoolify
from botpool.emulators.coolify.endpoints import ENDPOINTS
from botpool.emulators.coolify.fault_kinds import KINDS
from tests.backends.emulator.coolify_client import HEADERS, LOCATION, CoolifyClient, at, emulated
from tests.support.emulated_transport import EmulatedTransport

CONNECTION_ERRORS = (
    httpx.ConnectError,
    httpx.ReadError,
    httpx.RemoteProtocolError,
    httpx.ReadTimeout,
)
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
    with_location=st.booleans(),
)
async def test_random_request_gets_planned_response(
    endpoint: Any, method: str, body: bytes, query: dict[str, str], with_location: bool
) -> None:
    async with emulated() as coolify:
        uuid = await coolify.create("first")
        if with_location and endpoint.method == "POST":
            try:
                body = json.dumps({**json.loads(body), **LOCATION}).encode()
            except (ValueError, TypeError):
                return
        response = await coolify.call(
            method or endpoint.method,
            at(endpoint.path, uuid),
            content=body,
            params=query,
            headers={"Content-Type": "application/json"},
        )
        assert response.status_code < 500 or response.json()["message"] in PLANNED_500
        coolify.wait(600)
        await coolify.state()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(["faults", "applications", "time", "state", ""]), body=_VALUES)
async def test_random_control_request_gets_planned_response(path: str, body: Any) -> None:
    async with emulated() as coolify:
        response = await coolify.client.post(f"/_emulator/{path}", content=json.dumps(body))
        assert response.status_code in (200, 201, 404, 405, 422)


async def _step(coolify: CoolifyClient, randomness: random.Random, uuids: list[str]) -> None:
    endpoint = randomness.choice(ENDPOINTS)
    if endpoint.path == "/applications/dockerimage" and len(uuids) < 40:
        body = {**LOCATION, "docker_registry_image_name": randomness.choice(["one", "two"])}
        response = await coolify.call("POST", endpoint.path, json=body)
        if response.status_code == 201:
            uuids.append(response.json()["uuid"])
        return
    if endpoint.path.startswith("/deployments/{uuid}"):
        listed = [*coolify.emulated.deployments.by_uuid] or ["none"]
        uuid = randomness.choice(listed)
    else:
        uuid = randomness.choice([*uuids, "none"])
    body = {"json": {"name": "x"}} if endpoint.path == "/applications/{uuid}" else {}
    response = await coolify.call(
        endpoint.method, at(endpoint.path, uuid), params={"uuid": uuid}, **body
    )
    if response.status_code == 500:
        assert "Server Error" in response.text
    elif response.status_code > 500:
        assert response.status_code == 502


@pytest.mark.parametrize("seed", range(12))
async def test_random_calls_and_faults_leave_nothing_open(seed: int) -> None:
    randomness = random.Random(seed)
    async with emulated(seed=seed) as coolify:
        uuids: list[str] = []
        for _ in range(300):
            coolify.wait(randomness.choice([0, 0.5, 5, 60]))
            if randomness.random() < 0.1:
                kind = KINDS[randomness.choice([*KINDS])]
                value = {"probability": 0.3} if "probability" in kind.selectors else True
                await coolify.faults(**{kind.name: value})
            if randomness.random() < 0.05:
                await coolify.faults(clear=True)
            try:
                await _step(coolify, randomness, uuids)
            except CONNECTION_ERRORS:
                continue
        await _stop_everything(coolify)


async def _stop_everything(coolify: CoolifyClient) -> None:
    """Clear faults, stop everything and check that only orphaned containers are left."""
    await coolify.faults(clear=True)
    coolify.wait(120)
    for deployment in coolify.emulated.deployments.open:
        await coolify.call("POST", f"/deployments/{deployment.uuid}/cancel")
    coolify.wait(3600)
    for uuid in [*coolify.emulated.applications]:
        await coolify.stop(uuid)
    coolify.wait(3600)
    state = await coolify.state()
    assert state["runningContainers"] == state["orphanContainers"]
    assert state["openDeployments"] == []
    assert not any(each["running"] for each in state["applications"])
    assert {each["status"] for each in state["applications"]} <= {"exited:unhealthy"}


async def test_long_time_jump_is_fast() -> None:
    """The cost of `advance` depends on the number of events, not on the time."""
    coolify, clock = EmulatedCoolify(), EmulatedClock(manual=True)
    async with httpx.AsyncClient(
        transport=EmulatedTransport(coolify, clock), base_url="http://coolify", headers=HEADERS
    ) as client:
        clock.advance(1_000_000)
        assert (await client.get("/api/v1/version")).status_code == 200
