"""The data that is kept with a bot: artifacts, screenshots, output, commands and progress."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from botpool.domain.errors import BackendUnavailable
from tests.support.http_server import Api, api_over, assert_problem, unchanged
from tests.support.replicas import Stage, pool

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
JPEG = b"\xff\xd8\xff\xe0" + bytes(16)
WEBP = b"RIFF\x10\0\0\0WEBPVP8 " + bytes(16)
RECORDING = {"kind": "recording", "location": "s3://meetings/7.mp4", "sizeBytes": 1_000_000}


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


async def post(api: Api, bot_id: int, resource: str, **request: Any) -> httpx.Response:
    path = f"/v1/agent/bots/{bot_id}/{resource}"
    headers = request.pop("agent", None) or api.agent(bot_id)
    return await api.client.post(path, headers=headers, **request)


async def listed(api: Api, bot_id: int, resource: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/v1/bots/{bot_id}/{resource}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()[resource]
    return found


async def release(api: Api, bot_id: int) -> dict[str, str]:
    """End a bot, release its slot, and return the headers of the former agent."""
    former = api.agent(bot_id)
    await api.report(bot_id, "DONE")
    await api.stage.settle(api.replica)
    return former


async def test_artifacts_are_listed_in_the_bots_order(api: Api) -> None:
    bot = await api.running()
    assert bot["artifactCount"] == 0
    assert await listed(api, bot["id"], "artifacts") == []
    speakers = {"kind": "speakers", "location": "s3://meetings/7.json"}
    body = {"artifacts": [RECORDING, speakers]}
    assert (await post(api, bot["id"], "artifacts", json=body)).json() == {"recorded": 2}
    longer = RECORDING | {"sizeBytes": 2_000_000, "contentType": "video/mp4"}
    await post(api, bot["id"], "artifacts", json={"artifacts": [longer]})
    await release(api, bot["id"])
    found = await listed(api, bot["id"], "artifacts")
    assert [each.pop("at").endswith("Z") for each in found] == [True, True]
    assert found == [longer, speakers | {"sizeBytes": None, "contentType": None}]
    assert (await api.bot(bot["id"]))["artifactCount"] == 2


async def test_bot_lists_a_hundred_artifacts_at_most(api: Api) -> None:
    bot = await api.running()
    files = [{"kind": "other", "location": f"file-{number}"} for number in range(130)]
    for part in (files[:60], files[60:]):
        await post(api, bot["id"], "artifacts", json={"artifacts": part})
    assert len(await listed(api, bot["id"], "artifacts")) == 100
    assert (await api.bot(bot["id"]))["artifactCount"] == 100


@pytest.mark.parametrize(("content", "kind"), [(PNG, "png"), (JPEG, "jpeg"), (WEBP, "webp")])
async def test_screenshot_is_served_as_the_picture_that_it_is(
    api: Api, content: bytes, kind: str
) -> None:
    bot = await api.running()
    added = await post(api, bot["id"], "screenshots?note=lobby", content=content)
    assert added.json()["screenshot"]["contentType"] == f"image/{kind}"
    await release(api, bot["id"])
    (shown,) = await listed(api, bot["id"], "screenshots")
    assert (shown["number"], shown["note"], shown["sizeBytes"]) == (1, "lobby", len(content))
    picture = await api.get(f"/v1/bots/{bot['id']}/screenshots/1")
    assert picture.content == content
    assert picture.headers["content-type"] == f"image/{kind}"
    assert picture.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in picture.headers["content-security-policy"]


async def test_last_three_screenshots_are_kept(api: Api) -> None:
    bot = await api.running()
    for number in range(1, 6):
        await post(api, bot["id"], "screenshots", content=PNG + bytes([number]))
    assert [each["number"] for each in await listed(api, bot["id"], "screenshots")] == [3, 4, 5]
    picture = await api.get(f"/v1/bots/{bot['id']}/screenshots/5")
    assert picture.content == PNG + b"\5"
    assert_problem(await api.get(f"/v1/bots/{bot['id']}/screenshots/2"), 404)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"<svg onload='alert(1)'/>", 415),
        (b"<html>", 415),
        (b"", 415),
        (PNG + bytes(512 * 1024), 413),
        (PNG + bytes(10 * 1024 * 1024), 413),
    ],
)
async def test_other_content_is_no_screenshot(api: Api, content: bytes, status: int) -> None:
    bot = await api.running()
    with unchanged(api.stage.url):
        answer = await post(api, bot["id"], "screenshots", content=content)
    assert_problem(answer, status)


async def test_agent_of_an_ended_assignment_records_nothing(api: Api) -> None:
    bot = await api.running()
    former = await release(api, bot["id"])
    other = await api.running()
    with unchanged(api.stage.url):
        request: dict[str, Any] = {"json": {"artifacts": [RECORDING]}, "agent": former}
        assert (await post(api, bot["id"], "artifacts", **request)).json() == {"recorded": 0}
        assert_problem(await post(api, other["id"], "artifacts", **request), 404)
        late = await post(api, bot["id"], "screenshots", content=PNG, agent=former)
        assert late.json() == {"screenshot": None}
        assert_problem(await post(api, other["id"], "screenshots", content=PNG, agent=former), 404)


async def test_output_outlives_the_next_bot_of_the_slot(api: Api) -> None:
    bot = await api.running()
    assignment = api.stage.slot_of(bot["id"])["assignment_id"]
    await release(api, bot["id"])
    await api.running()
    api.stage.backend.forget_output()
    logs = await api.get(f"/v1/bots/{bot['id']}/logs")
    assert logs.text == f"output of {assignment}\n"
    assert (await api.get(f"/v1/bots/{bot['id']}/logs", tail=0)).text == ""


async def test_output_of_an_unreachable_backend_is_the_kept_one(api: Api) -> None:
    bot = await api.running()
    await release(api, bot["id"])
    api.stage.backend.fail("logs", BackendUnavailable("502"))
    assert (await api.get(f"/v1/bots/{bot['id']}/logs")).text.startswith("output of")


async def test_end_of_a_long_output_is_kept(api: Api) -> None:
    bot = await api.running()
    api.stage.backend.output = b"x" * 50_000 + b"\n" + b"y" * 40_000 + b"\n"
    await release(api, bot["id"])
    api.stage.backend.forget_output()
    text = (await api.get(f"/v1/bots/{bot['id']}/logs")).text
    assert text.startswith("[Botpool kept the end")
    assert text.endswith("y\n") and len(text) < 66_000
    assert (await api.get(f"/v1/bots/{bot['id']}/logs", tail=1)).text == "y" * 40_000 + "\n"


async def test_unreadable_output_does_not_hold_up_the_release(api: Api) -> None:
    bot = await api.running()
    api.stage.backend.fail("logs", BackendUnavailable("502"))
    await release(api, bot["id"])
    assert api.stage.slots()[0]["status"] == "idle"
    assert api.stage.rows("SELECT bot_id FROM bot_outputs") == []


async def heartbeat(api: Api, bot_id: int, **body: Any) -> dict[str, Any]:
    answer = await post(api, bot_id, "heartbeat", json=body)
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


async def send(api: Api, bot_id: int, kind: str = "chat", **data: Any) -> int:
    answer = await api.post(f"/v1/bots/{bot_id}/commands", {"kind": kind, "data": data})
    assert answer.status_code == 202, answer.text
    assert answer.json()["command"]["state"] == "waiting"
    command_id: int = answer.json()["command"]["id"]
    return command_id


async def states(api: Api, bot_id: int) -> list[str]:
    return [each["state"] for each in await listed(api, bot_id, "commands")]


async def test_commands_are_delivered_in_order_until_acknowledged(api: Api) -> None:
    bot = await api.running()
    first, second = await send(api, bot["id"], text="a"), await send(api, bot["id"], text="b")
    expected = [
        {"id": first, "kind": "chat", "data": {"text": "a"}},
        {"id": second, "kind": "chat", "data": {"text": "b"}},
    ]
    assert await states(api, bot["id"]) == ["waiting", "waiting"]
    assert (await heartbeat(api, bot["id"]))["commands"] == expected
    assert await states(api, bot["id"]) == ["delivered", "delivered"]
    # The response may have been lost, so the commands come again.
    assert (await heartbeat(api, bot["id"]))["commands"] == expected
    assert (await heartbeat(api, bot["id"], acknowledged=[first]))["commands"] == expected[1:]
    assert (await heartbeat(api, bot["id"], acknowledged=[first, second]))["commands"] == []
    assert await states(api, bot["id"]) == ["acknowledged", "acknowledged"]


async def test_command_to_a_queued_bot_waits_for_its_agent(api: Api) -> None:
    running = await api.running()
    queued = (await api.create())["bot"]
    await send(api, queued["id"])
    assert (await heartbeat(api, running["id"]))["commands"] == []
    await release(api, running["id"])
    assert len((await heartbeat(api, queued["id"]))["commands"]) == 1


async def test_foreign_acknowledgement_changes_nothing(api: Api) -> None:
    running = await api.running()
    queued = (await api.create())["bot"]
    command = await send(api, queued["id"])
    await heartbeat(api, running["id"], acknowledged=[command, 999_999])
    assert await states(api, queued["id"]) == ["waiting"]


async def test_command_that_an_ended_bot_did_not_acknowledge_is_lost(api: Api) -> None:
    bot = await api.running()
    command = await send(api, bot["id"])
    await heartbeat(api, bot["id"])
    former = await release(api, bot["id"])
    with unchanged(api.stage.url):
        body = {"acknowledged": [command]}
        late = (await post(api, bot["id"], "heartbeat", json=body, agent=former)).json()
        refused = await api.post(f"/v1/bots/{bot['id']}/commands", {"kind": "chat"})
    assert late == {"shouldLeave": True, "shouldExit": True, "commands": []}
    assert_problem(refused, 409, "has ended")
    assert await states(api, bot["id"]) == ["lost"]


async def test_bot_has_a_hundred_open_commands_at_most(api: Api) -> None:
    bot = await api.running()
    for _ in range(100):
        await send(api, bot["id"])
    with unchanged(api.stage.url):
        refused = await api.post(f"/v1/bots/{bot['id']}/commands", {"kind": "chat"})
    assert_problem(refused, 409, "too many commands")
    assert len((await heartbeat(api, bot["id"]))["commands"]) == 20
    first = await api.get(f"/v1/bots/{bot['id']}/commands", limit=60)
    more = {"limit": 60, "cursor": first.json()["nextCursor"]}
    rest = (await api.get(f"/v1/bots/{bot['id']}/commands", **more)).json()
    assert len(rest["commands"]) == 40 and rest["nextCursor"] is None


@pytest.mark.parametrize(
    "body", [{}, {"kind": ""}, {"kind": "a b"}, {"kind": "x", "data": {"a": "x" * 9000}}, []]
)
async def test_wrong_command_is_refused(api: Api, body: Any) -> None:
    bot = await api.running()
    with unchanged(api.stage.url):
        answer = await api.post(f"/v1/bots/{bot['id']}/commands", body)
    assert_problem(answer, 422)


@pytest.mark.parametrize("resource", ["artifacts", "screenshots", "screenshots/1", "commands"])
async def test_unknown_bot_has_no_data(api: Api, resource: str) -> None:
    assert_problem(await api.get(f"/v1/bots/999/{resource}"), 404, "no bot 999")


def _at(api: Api) -> datetime:
    found: datetime = api.stage.rows("SELECT botpool_now() AS now")[0]["now"]
    return found.astimezone(UTC)


@pytest.fixture
async def watched(stage: Stage) -> AsyncIterator[Api]:
    """A pool in which a bot without media for a minute counts as stalled."""
    async with api_over(stage, pool(1, stalled_after_s=60)) as api:
        yield api


async def test_bot_without_media_is_stalled_while_its_heartbeats_continue(watched: Api) -> None:
    api = watched
    bot = await api.running()
    api.stage.clock.move(300)
    await heartbeat(api, bot["id"])
    assert not (await api.bot(bot["id"]))["stalled"], "a bot in the lobby records nothing"
    await api.report(bot["id"], "IN_CALL")
    api.stage.clock.move(59)
    await heartbeat(api, bot["id"])
    assert not (await api.bot(bot["id"]))["stalled"]
    api.stage.clock.move(2)
    assert not (await api.bot(bot["id"]))["stalled"], "no heartbeat shows that it is alive"
    await heartbeat(api, bot["id"])
    assert (await api.bot(bot["id"]))["stalled"]
    metrics = (await api.client.get("/metrics", headers=api.operator)).text
    assert 'botpool_bots_stalled{pool="google-meet"} 1.0' in metrics
    await heartbeat(api, bot["id"], lastMediaAt=_at(api).isoformat())
    assert not (await api.bot(bot["id"]))["stalled"]
    api.stage.clock.move(61)
    await heartbeat(api, bot["id"])
    assert (await api.bot(bot["id"]))["stalled"]
    await api.report(bot["id"], "CALL_ENDED")
    assert not (await api.bot(bot["id"]))["stalled"]


async def test_media_from_the_future_counts_as_of_now(watched: Api) -> None:
    api = watched
    bot = await api.running()
    await api.report(bot["id"], "IN_CALL")
    tomorrow = (_at(api) + timedelta(days=1)).isoformat()
    await heartbeat(api, bot["id"], lastMediaAt=tomorrow)
    api.stage.clock.move(61)
    await heartbeat(api, bot["id"])
    assert (await api.bot(bot["id"]))["stalled"]


async def test_progress_of_the_heartbeats_is_shown_with_the_bot(api: Api) -> None:
    bot = await api.running()
    assert "progress" not in (await api.get(f"/v1/bots/{bot['id']}")).json()
    media_at = _at(api).isoformat()
    await heartbeat(api, bot["id"], progress={"bytesUploaded": 7}, lastMediaAt=media_at)
    shown = (await api.get(f"/v1/bots/{bot['id']}")).json()
    assert shown["progress"] == {"bytesUploaded": 7}
    assert datetime.fromisoformat(shown["lastMediaAt"]) <= _at(api)
