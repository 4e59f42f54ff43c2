"""Access to `GET /metrics` and the docs, as the settings define it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from botpool.api.app import create_app
from botpool.settings import Settings
from botpool.settings.sections import ServerSettings
from tests.support.http_server import Api, api_over, assert_problem
from tests.support.replicas import TEAMS, Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1), pool(0, TEAMS)) as api:
        yield api


@asynccontextmanager
async def with_settings(api: Api, **server: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(server=ServerSettings(**server))
    transport = httpx.ASGITransport(create_app(api.replica, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://botpool.test") as client:
        yield client


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and labels, with the labels sorted by name."""
    return {
        (sample.name, *(label for _, label in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics_count_admissions_and_heartbeats(api: Api) -> None:
    bot = await api.running()
    await api.client.post(f"/v1/agent/bots/{bot['id']}/heartbeat", headers=api.agent(bot["id"]))
    await api.create(platform="teams")
    answer = await api.client.get("/metrics", headers=api.operator)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found = samples(answer.text)
    expected = {
        ("botpool_slots", "google-meet", "busy"): 1,
        ("botpool_slots", "google-meet", "idle"): 0,
        ("botpool_pool_max_slots", "google-meet"): 1,
        ("botpool_queue_depth", "teams"): 1,
        ("botpool_admissions_total", "cold", "google-meet"): 1,
        ("botpool_admissions_total", "queued", "teams"): 1,
        ("botpool_heartbeats_total", "go_on"): 1,
        ("botpool_time_to_running_seconds_count", "google-meet", "cold"): 1,
        ("botpool_backend_calls_total", "process", "start", "ok"): 1,
        ("botpool_database_reachable",): 1,
        ("botpool_listening",): 0,
    }
    assert {key: found.get(key) for key in expected} == expected


async def test_metrics_need_an_operator_key_by_default(api: Api) -> None:
    assert_problem(await api.client.get("/metrics"), 401, "valid API key")
    assert_problem(await api.client.get("/metrics", headers=api.user), 403, "operator")
    assert (await api.client.get("/metrics", headers=api.admin)).status_code == 200


async def test_open_metrics_need_no_key(api: Api) -> None:
    async with with_settings(api, metrics="open") as client:
        assert (await client.get("/metrics")).status_code == 200


async def test_metrics_can_be_switched_off(api: Api) -> None:
    async with with_settings(api, metrics="off") as client:
        assert_problem(await client.get("/metrics", headers=api.admin), 404)
        assert "/metrics" not in (await client.get("/openapi.json")).json()["paths"]


async def test_docs_can_be_switched_off(api: Api) -> None:
    assert (await api.client.get("/openapi.json")).status_code == 200
    async with with_settings(api, docs="off") as client:
        for path in ("/openapi.json", "/docs", "/redoc"):
            assert_problem(await client.get(path), 404)


def test_default_settings_of_metrics_and_docs() -> None:
    server = Settings().server
    assert (server.metrics, server.docs) == ("key", "open")
