"""Setting faults, other people's applications, time, and the same world from the same seed."""

import json
import random
from typing import Any

import pytest

from botpool.emulators.coolify import World, WrongFault
from tests.backends.emulator.emulated_coolify import NO_LAG, Coolify, emulated


async def test_faults_are_shown_counted_down_and_cleared(prompt: Coolify) -> None:
    await prompt.faults(stopDoesNothing={"times": 2}, registryDown=True)
    shown = (await prompt.client.get("/_emulator/faults")).json()
    assert shown == {"stopDoesNothing": [{"times": 2}], "registryDown": [{}]}
    await prompt.stop(await prompt.create())
    shown = (await prompt.client.get("/_emulator/faults")).json()
    assert shown["stopDoesNothing"] == [{"times": 1}]
    await prompt.faults(registryDown=None, stopDoesNothing=0)
    assert (await prompt.client.get("/_emulator/faults")).json() == {}
    await prompt.faults(registryDown=True, apiDisabled=True)
    await prompt.faults(clear=True, stopLies=True)
    assert list((await prompt.client.get("/_emulator/faults")).json()) == ["stopLies"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"stopDoesNothin": True}, "stopDoesNothing"),
        ({"stopLies": {"time": 1}}, "times"),
        ({"stopLies": {"times": -1}}, "times"),
        ({"stopLies": {"times": 1.5}}, "times"),
        ({"stopLies": {"probability": 2}}, "probability"),
        ({"stopLies": {"application": 7}}, "application"),
        ({"stopLies": "yes"}, "stopLies"),
        ({"serverUnreachable": 3}, "serverUnreachable"),
        ({"serverUnreachable": {"times": 3}}, "nothing but true"),
        ({"slowAnswer": {"endpoint": "GET /nowhere"}}, "GET /applications"),
        ({"slowAnswer": {"seconds": "long"}}, "seconds"),
        ({"resetConnection": {"worked": 1}}, "worked"),
        ({"missingAbility": {"ability": "read:sensitive"}}, "read, write, deploy"),
        ({"missingAbility": {"ability": 7}}, "read, write, deploy"),
        ({"clear": False}, "clear"),
        ([], "object"),
    ],
)
async def test_wrong_faults_are_422_and_change_nothing(
    prompt: Coolify, wrong: Any, told: str
) -> None:
    if isinstance(wrong, dict):
        wrong = {"registryDown": True, **wrong}
    answer = await prompt.client.post("/_emulator/faults", json=wrong)
    assert answer.status_code == 422
    assert told in answer.json()["message"]
    assert (await prompt.client.get("/_emulator/faults")).json() == {}


async def test_every_fault_is_explained_and_can_be_set(prompt: Coolify) -> None:
    overview = (await prompt.client.get("/_emulator")).json()
    assert "GET /_emulator/state" in overview["calls"]
    for name, kind in overview["faults"].items():
        assert kind["does"]
        aims = {"probability": 0.5, "times": 2, "application": "x", "endpoint": "GET /version"}
        value = {aim: aims[aim] for aim in kind["aims"]} | kind["values"]
        answer = await prompt.client.post("/_emulator/faults", json={name: value or True})
        assert answer.status_code == 200
        assert answer.json()[name] == [value]


async def test_control_answers_are_clear_about_mistakes(prompt: Coolify) -> None:
    assert (await prompt.client.post("/_emulator/faults", content=b"{")).status_code == 422
    assert (await prompt.client.get("/_emulator/nothing")).status_code == 404
    assert (await prompt.client.delete("/_emulator/faults")).status_code == 405
    for wrong in ({}, {"name": 1}, {"name": "x", "colour": "red"}):
        answer = await prompt.client.post("/_emulator/applications", json=wrong)
        assert answer.status_code == 422
    for wrong in ({"scale": 0, "speed": 1}, {"advance": -1}, {"scale": 2}):
        assert (await prompt.client.post("/_emulator/time", json=wrong)).status_code == 422


async def test_a_probability_is_drawn_for_each(prompt: Coolify) -> None:
    await prompt.faults(badGateway={"probability": 0.3, "endpoint": "GET /version"})
    statuses = [(await prompt.call("GET", "/version")).status_code for _ in range(150)]
    assert 25 < statuses.count(502) < 65
    assert set(statuses) == {200, 502}


async def test_several_of_a_kind_are_each_for_themselves(prompt: Coolify) -> None:
    one, two, three = [await prompt.running(name=name) for name in ("one", "two", "three")]
    await prompt.faults(stopDoesNothing=[{"application": one}, {"application": two, "times": 1}])
    for uuid in (one, two, three):
        await prompt.stop(uuid)
    prompt.wait(60)
    assert [prompt.truth(uuid) for uuid in (one, two, three)] == [True, True, False]


async def test_applications_of_others(prompt: Coolify) -> None:
    answer = await prompt.client.post(
        "/_emulator/applications",
        json={"name": "pool-google-meet-001", "image": "theirs", "running": True, "tags": ["them"]},
        headers={"Authorization": ""},
    )
    assert answer.status_code == 201
    uuid = answer.json()["uuid"]
    assert await prompt.status(uuid) == "running:unknown"
    assert [each["uuid"] for each in await prompt.get("/applications?tag=them")] == [uuid]
    state = await prompt.state()
    assert (state["runningContainers"], state["pulls"]) == (1, {})


async def test_time_can_be_moved_by_http(prompt: Coolify) -> None:
    uuid = await prompt.create()
    await prompt.start(uuid)
    answer = await prompt.client.post("/_emulator/time", json={"advance": 600})
    assert answer.json() == {"now": 600.0, "scale": 1.0}
    assert prompt.truth(uuid)


async def test_jumping_from_event_to_event(prompt: Coolify) -> None:
    """Nothing happens between two events: a simulation needs to stop nowhere else."""
    uuid = await prompt.create()
    await prompt.start(uuid)
    jumps = 0
    while (moment := prompt.world.next_event_at()) is not None:
        prompt.clock.advance_to(moment)
        prompt.world.advance(moment)
        jumps += 1
    assert prompt.truth(uuid) and jumps < 10


def test_faults_can_be_set_without_http() -> None:
    world = World()
    world.set_faults({"registryDown": True})
    with pytest.raises(WrongFault, match="no such fault"):
        world.set_faults({"registryUp": True})


async def _story(seed: int) -> list[str]:
    """A busy hour with faults: every answer, in order."""
    told: list[str] = []
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
            answer = await coolify.call("POST", f"/applications/{uuid}/{verb}")
            told.append(answer.text)
            if step % 20 == 0:
                answer = await coolify.client.post(
                    "/_emulator/applications", json={"name": f"bot-{step}"}
                )
                uuids.append(answer.json()["uuid"])
            told.append((await coolify.call("GET", "/applications")).text)
        told.append(json.dumps(await coolify.state()))
    return told


async def test_the_same_seed_gives_the_same_world() -> None:
    assert await _story(1) == await _story(1)


async def test_another_seed_gives_another_world() -> None:
    assert await _story(1) != await _story(2)


async def test_pulls_are_counted_per_image(prompt: Coolify) -> None:
    async with emulated(NO_LAG) as coolify:
        for tag in ("1", "2"):
            await coolify.start(await coolify.create(docker_registry_image_tag=tag))
        coolify.wait(600)
        assert (await coolify.state())["pulls"] == {"team/bot:1": 1, "team/bot:2": 1}
