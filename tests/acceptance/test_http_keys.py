"""API keys over time: expiry, last use and rotation."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from botpool.cli.serve_replica import first_key
from botpool.store.data_dir import DataDir
from tests.support.http_server import LINK, Api, api_over, assert_problem, bearer
from tests.support.replicas import Stage, pool

HOUR_MS = 3_600_000


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


async def new_key(api: Api, **fields: Any) -> tuple[int, str]:
    answer = await api.client.post("/v1/keys", json={"name": "ci", **fields}, headers=api.admin)
    assert answer.status_code == 201, answer.text
    return answer.json()["key"]["id"], answer.json()["secret"]


async def rotate(api: Api, key_id: int, overlap_ms: int) -> dict[str, Any]:
    path = f"/v1/keys/{key_id}/rotate"
    answer = await api.client.post(path, json={"overlapMs": overlap_ms}, headers=api.admin)
    assert answer.status_code == 200, answer.text
    rotated: dict[str, Any] = answer.json()
    return rotated


async def is_valid(api: Api, secret: str) -> bool:
    api.replica.api_keys._cache.clear()  # as after its ten seconds
    answer = await api.client.get("/v1/bots", headers=bearer(secret))
    assert answer.status_code in (200, 401), answer.text
    return answer.status_code == 200


async def test_key_and_its_session_end_at_its_expiry(api: Api) -> None:
    _, secret = await new_key(api, expiresInMs=HOUR_MS)
    opened = await api.client.post("/v1/session", headers=bearer(secret))
    api.client.cookies.clear()
    session = {"Cookie": f"botpool_session={opened.cookies['botpool_session']}"}
    api.stage.clock.move(3_590)
    assert await is_valid(api, secret)
    assert (await api.client.get("/v1/bots", headers=session)).status_code == 200
    api.stage.clock.move(11)
    assert not await is_valid(api, secret)
    assert_problem(await api.client.get("/v1/bots", headers=session), 401)


@pytest.mark.parametrize("lifetime_ms", [0, -1, 1.5, "1", 10**15])
async def test_impossible_lifetime_is_refused(api: Api, lifetime_ms: object) -> None:
    body = {"name": "ci", "expiresInMs": lifetime_ms}
    assert_problem(await api.client.post("/v1/keys", json=body, headers=api.admin), 422)


async def test_rotated_key_overlaps_with_the_former_one(api: Api) -> None:
    key_id, former = await new_key(api)
    rotated = await rotate(api, key_id, HOUR_MS)
    assert rotated["key"]["id"] == key_id
    assert rotated["secret"].startswith(rotated["key"]["prefix"])
    assert await is_valid(api, former)
    assert await is_valid(api, rotated["secret"])
    api.stage.clock.move(3_601)
    assert not await is_valid(api, former)
    assert await is_valid(api, rotated["secret"])


async def test_rotation_keeps_sessions_and_idempotency_keys(api: Api) -> None:
    key_id, former = await new_key(api)
    opened = await api.client.post("/v1/session", headers=bearer(former))
    api.client.cookies.clear()
    request = {"Idempotency-Key": "monday"}
    body = {"meetingUrl": LINK}
    first = await api.client.post("/v1/bots", json=body, headers=bearer(former) | request)
    secret = (await rotate(api, key_id, 0))["secret"]
    assert not await is_valid(api, former)
    again = await api.client.post("/v1/bots", json=body, headers=bearer(secret) | request)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["bot"]["id"] == first.json()["bot"]["id"]
    session = {"Cookie": f"botpool_session={opened.cookies['botpool_session']}"}
    assert (await api.client.get("/v1/bots", headers=session)).status_code == 200


async def test_rotation_begins_the_lifetime_anew(api: Api) -> None:
    key_id, _ = await new_key(api, expiresInMs=HOUR_MS)
    api.stage.clock.move(3_000)
    secret = (await rotate(api, key_id, HOUR_MS))["secret"]
    api.stage.clock.move(3_000)
    assert await is_valid(api, secret)
    api.stage.clock.move(601)
    assert not await is_valid(api, secret)


async def test_revoked_key_cannot_be_rotated_and_both_of_its_texts_end(api: Api) -> None:
    key_id, former = await new_key(api)
    secret = (await rotate(api, key_id, HOUR_MS))["secret"]
    await api.client.delete(f"/v1/keys/{key_id}", headers=api.admin)
    assert not await is_valid(api, former)
    assert not await is_valid(api, secret)
    path = f"/v1/keys/{key_id}/rotate"
    assert_problem(await api.client.post(path, json={}, headers=api.admin), 404)


async def test_last_use_is_recorded_later_and_not_with_each_request(api: Api) -> None:
    async def last_used() -> Any:
        keys = (await api.client.get("/v1/keys", headers=api.admin)).json()["keys"]
        (found,) = [key["lastUsedAt"] for key in keys if key["id"] == key_id]
        return found

    key_id, secret = await new_key(api)
    assert await is_valid(api, secret)
    assert await last_used() is None, "a request must not write"
    await api.replica.api_keys.record_uses()
    first = await last_used()
    assert first is not None
    await api.client.get("/v1/bots", headers=bearer(secret))
    await api.replica.api_keys.record_uses()
    assert await last_used() == first, "written at most once a minute"
    api.stage.clock.move(61)
    await api.client.get("/v1/bots", headers=bearer(secret))
    await api.replica.api_keys.record_uses()
    assert await last_used() > first


async def test_start_does_not_revive_the_rotated_first_key(api: Api, tmp_path: Path) -> None:
    data_dir = DataDir.open(tmp_path / "data")
    text = await first_key(data_dir, api.replica)
    key = await api.replica.api_keys.find(text)
    assert key is not None
    for _ in range(2):  # the second rotation forgets the text of the first start
        await rotate(api, key.id, 0)
    assert await first_key(data_dir, api.replica) == text
    assert not await is_valid(api, text)
