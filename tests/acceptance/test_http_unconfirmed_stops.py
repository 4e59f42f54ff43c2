"""A slot whose stop cannot be confirmed, over HTTP: shown everywhere, released only by force."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from botpool.engine.maintenance.doctor.incidents import unconfirmed_finding
from botpool.store.doctor import list_unconfirmed_slots
from tests.engine.test_unconfirmed_stops import stopped_on_lost_node
from tests.support.http_server import Api, api_over, assert_problem
from tests.support.replicas import Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    stage.clock.freeze()
    async with api_over(stage, pool(2)) as api:
        await stopped_on_lost_node(stage, stage.replicas[-1])
        yield api


async def call(api: Api, method: str, path: str, *, scope: str = "operator", **more: Any) -> Any:
    headers = {"X-API-Key": api.api_keys[scope]}
    return await api.client.request(method, path, headers=headers, **more)


async def test_slot_pool_metric_and_doctor_name_node_and_time(api: Api, stage: Stage) -> None:
    slot = (await call(api, "GET", "/v1/slots/1")).json()["slot"]
    assert slot["status"] == "releasing"
    assert slot["unconfirmedReason"] == "node n3 is unreachable"
    assert (slot["unconfirmedNode"], slot["unconfirmedSince"]) == ("n3", "2026-01-05T09:56:00Z")
    shown = (await call(api, "GET", "/v1/pools/google-meet")).json()["pool"]
    assert (shown["unconfirmedStops"], shown["slotsByStatus"]) == (1, {"releasing": 1})
    metrics = (await stage.replicas[-1].metrics_export.text()).decode()
    assert 'botpool_unconfirmed_stops{pool="google-meet"} 1.0' in metrics
    finding = unconfirmed_finding(await list_unconfirmed_slots(stage.databases[-1]))
    assert finding.found == (
        "pool-google-meet-001: node n3 is unreachable since 2026-01-05T09:56:00Z"
    )


async def test_forced_release_needs_an_admin_and_is_audited(api: Api, stage: Stage) -> None:
    forced = "/v1/slots/1/release?force=true"
    refused = await call(api, "POST", forced)
    assert_problem(refused, 403)
    assert "scope 'admin'" in refused.json()["detail"]
    assert_problem(await call(api, "POST", f"{forced}&botId=99", scope="admin"), 409)
    assert stage.slots()[0]["status"] == "releasing"
    done = await call(api, "POST", f"{forced}&botId=1", scope="admin")
    assert done.status_code == 202
    assert done.json()["slot"]["status"] == "idle"
    assert done.json()["slot"]["unconfirmedReason"] is None
    again = await call(api, "POST", f"{forced}&botId=1", scope="admin")
    assert_problem(again, 409)
    assert "it is idle, not releasing" in again.json()["detail"]
    entries = (await call(api, "GET", "/v1/audit")).json()["entries"]
    (entry,) = [each for each in entries if each["action"] == "slot.release.force"]
    assert entry["before"]["node"] == "n3"


async def test_release_without_force_changes_nothing(api: Api, stage: Stage) -> None:
    before = stage.slots()
    assert (await call(api, "POST", "/v1/slots/1/release")).status_code == 202
    assert stage.slots() == before
