"""The control API: faults, applications and time; and reproducible runs."""

import json
import random
from typing import Any

import pytest

from botpool.emulators.coolify import EmulatedCoolify, InvalidFault
from tests.backends.emulator.coolify_client import NO_LAG, CoolifyClient, emulated


async def test_faults_count_down_and_can_be_cleared(coolify: CoolifyClient) -> None:
    await coolify.faults(stopDoesNothing={"times": 2}, registryDown=True)
    shown = (await coolify.client.get("/_emulator/faults")).json()
    assert shown == {"stopDoesNothing": [{"times": 2}], "registryDown": [{}]}
    await coolify.stop(await coolify.create())
    shown = (await coolify.client.get("/_emulator/faults")).json()
    assert shown["stopDoesNothing"] == [{"times": 1}]
    await coolify.faults(registryDown=None, stopDoesNothing=0)
    assert (await coolify.client.get("/_emulator/faults")).json() == {}
    await coolify.faults(registryDown=True, apiDisabled=True)
    await coolify.faults(clear=True, stopLies=True)
    assert list((await coolify.client.get("/_emulator/faults")).json()) == ["stopLies"]


@pytest.mark.parametrize(
    ("invalid", "expected"),
    [
        ({"stopDoesNothin": True}, "stopDoesNothing"),
        ({"stopLies": {"time": 1}}, "times"),
        ({"stopLies": {"times": -1}}, "times"),
        ({"stopLies": {"times": 1.5}}, "times"),
        ({"stopLies": {"probability": 2}}, "probability"),
        ({"stopLies": {"application": 7}}, "application"),
        ({"stopLies": "yes"}, "stopLies"),
        ({"serverUnreachable": 3}, "serverUnreachable"),
        ({"serverUnreachable": {"times": 3}}, "only true"),
        ({"slowAnswer": {"endpoint": "GET /nowhere"}}, "GET /applications"),
        ({"slowAnswer": {"seconds": "long"}}, "seconds"),
        ({"resetConnection": {"worked": 1}}, "worked"),
        ({"missingAbility": {"ability": "read:sensitive"}}, "read, write, deploy"),
        ({"missingAbility": {"ability": 7}}, "read, write, deploy"),
        ({"clear": False}, "clear"),
        ([], "object"),
    ],
)
async def test_invalid_faults_return_422_and_change_nothing(
    coolify: CoolifyClient, invalid: Any, expected: str
) -> None:
    if isinstance(invalid, dict):
        invalid = {"registryDown": True, **invalid}
    response = await coolify.client.post("/_emulator/faults", json=invalid)
    assert response.status_code == 422
    assert expected in response.json()["message"]
    assert (await coolify.client.get("/_emulator/faults")).json() == {}


async def test_overview_explains_every_fault_and_each_can_be_set(coolify: CoolifyClient) -> None:
    overview = (await coolify.client.get("/_emulator")).json()
    assert "GET /_emulator/state" in overview["calls"]
    for name, kind in overview["faults"].items():
        assert kind["does"]
        aims = {"probability": 0.5, "times": 2, "application": "x", "endpoint": "GET /version"}
        value = {aim: aims[aim] for aim in kind["aims"]} | kind["values"]
        response = await coolify.client.post("/_emulator/faults", json={name: value or True})
        assert response.status_code == 200
        assert response.json()[name] == [value]


async def test_control_api_rejects_invalid_requests(coolify: CoolifyClient) -> None:
    assert (await coolify.client.post("/_emulator/faults", content=b"{")).status_code == 422
    assert (await coolify.client.get("/_emulator/nothing")).status_code == 404
    assert (await coolify.client.delete("/_emulator/faults")).status_code == 405
    for invalid in ({}, {"name": 1}, {"name": "x", "colour": "red"}):
        response = await coolify.client.post("/_emulator/applications", json=invalid)
        assert response.status_code == 422
    for invalid in ({"scale": 0, "speed": 1}, {"advance": -1}, {"scale": 2}):
        assert (await coolify.client.post("/_emulator/time", json=invalid)).status_code == 422


async def test_probability_is_drawn_for_each_call(coolify: CoolifyClient) -> None:
    await coolify.faults(badGateway={"probability": 0.3, "endpoint": "GET /version"})
    statuses = [(await coolify.call("GET", "/version")).status_code for _ in range(150)]
    assert 25 < statuses.count(502) < 65
    assert set(statuses) == {200, 502}


async def test_list_of_faults_applies_each_to_its_application(coolify: CoolifyClient) -> None:
    one, two, three = [await coolify.running(name=name) for name in ("one", "two", "three")]
    await coolify.faults(stopDoesNothing=[{"application": one}, {"application": two, "times": 1}])
    for uuid in (one, two, three):
        await coolify.stop(uuid)
    coolify.wait(60)
    assert [coolify.is_running(uuid) for uuid in (one, two, three)] == [True, True, False]


async def test_control_api_creates_running_application(coolify: CoolifyClient) -> None:
    response = await coolify.client.post(
        "/_emulator/applications",
        json={"name": "pool-google-meet-001", "image": "theirs", "running": True, "tags": ["them"]},
        headers={"Authorization": ""},
    )
    assert response.status_code == 201
    uuid = response.json()["uuid"]
    assert await coolify.status(uuid) == "running:unknown"
    assert [each["uuid"] for each in await coolify.get("/applications?tag=them")] == [uuid]
    state = await coolify.state()
    assert (state["runningContainers"], state["pulls"]) == (1, {})


async def test_control_api_advances_time(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.start(uuid)
    response = await coolify.client.post("/_emulator/time", json={"advance": 600})
    assert response.json() == {"now": 600.0, "scale": 1.0}
    assert coolify.is_running(uuid)


async def test_simulation_can_jump_from_event_to_event(coolify: CoolifyClient) -> None:
    """Nothing happens between two events."""
    uuid = await coolify.create()
    await coolify.start(uuid)
    jumps = 0
    while (moment := coolify.emulated.next_event_at()) is not None:
        coolify.clock.advance(moment - coolify.clock.now())
        coolify.emulated.advance(moment)
        jumps += 1
    assert coolify.is_running(uuid) and jumps < 10


def test_faults_can_be_set_without_http() -> None:
    coolify = EmulatedCoolify()
    coolify.set_faults({"registryDown": True})
    with pytest.raises(InvalidFault, match="no such fault"):
        coolify.set_faults({"registryUp": True})


async def _responses_of_random_hour(seed: int) -> list[str]:
    """Return every response of an hour with random calls and faults."""
    responses: list[str] = []
    script = random.Random(7)
    async with emulated(seed=seed) as coolify:
        await coolify.faults(
            startWithoutUuid={"probability": 0.2},
            stopDoesNothing={"probability": 0.3},
            badGateway={"probability": 0.05},
        )
        created = await coolify.client.post("/_emulator/applications", json={"name": "other"})
        uuids = [created.json()["uuid"]]
        for step in range(150):
            coolify.wait(script.uniform(0, 50))
            uuid = script.choice(uuids)
            verb = script.choice(["start", "stop", "restart"])
            response = await coolify.call("POST", f"/applications/{uuid}/{verb}")
            responses.append(response.text)
            if step % 20 == 0:
                response = await coolify.client.post(
                    "/_emulator/applications", json={"name": f"bot-{step}"}
                )
                uuids.append(response.json()["uuid"])
            responses.append((await coolify.call("GET", "/applications")).text)
        responses.append(json.dumps(await coolify.state()))
    return responses


async def test_same_seed_gives_same_responses() -> None:
    assert await _responses_of_random_hour(1) == await _responses_of_random_hour(1)


async def test_different_seed_gives_different_responses() -> None:
    assert await _responses_of_random_hour(1) != await _responses_of_random_hour(2)


async def test_pulls_are_counted_per_image(coolify: CoolifyClient) -> None:
    async with emulated(NO_LAG) as coolify:
        for tag in ("1", "2"):
            await coolify.start(await coolify.create(docker_registry_image_tag=tag))
        coolify.wait(600)
        assert (await coolify.state())["pulls"] == {"team/bot:1": 1, "team/bot:2": 1}
