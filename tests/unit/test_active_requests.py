"""Limits for requests in progress: users cannot displace agents, nor one caller all others."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import Request

from botpool.api.active_requests import ActiveRequests, count_agent_request
from botpool.api.connections import ConnectionLimits
from botpool.domain.errors import LimitExceeded
from botpool.domain.ids import AssignmentId

HEARTBEAT = "/v1/agent/bots/1/heartbeat"


class Api:
    """An application whose requests stay in progress until the test ends them."""

    def __init__(self, **limits: int) -> None:
        self.refused: list[str] = []
        self.in_progress = 0
        self._may_end = asyncio.Event()
        self._app = ActiveRequests(
            self._answer, limits=ConnectionLimits(**limits), on_refused=self.refused.append
        )
        self._tasks: set[asyncio.Task[int]] = set()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        status = 200
        if (agent := scope.get("agent")) is not None:
            try:
                count_agent_request(Request(scope), AssignmentId(agent))
            except LimitExceeded:
                status = 429
        self.in_progress += 1
        try:
            if status == 200:
                await self._may_end.wait()
            await send({"type": "http.response.start", "status": status, "headers": []})
        finally:
            self.in_progress -= 1

    async def start(self, path: str, count: int = 1, **scope: Any) -> None:
        """Begin requests that stay in progress."""
        before = self.in_progress
        self._tasks.update(asyncio.create_task(self.status(path, **scope)) for _ in range(count))
        while self.in_progress < before + count:
            await asyncio.sleep(0)

    async def status(self, path: str, host: str = "192.0.2.1", **scope: Any) -> int:
        statuses = []

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        client = {"client": (host, 1), "headers": [], "path": path, "type": "http"}
        await self._app({**client, **scope}, _receive, send)
        (status,) = statuses
        return int(status)

    async def end_all(self) -> None:
        self._may_end.set()
        await asyncio.gather(*self._tasks)


async def _receive() -> dict[str, Any]:
    raise AssertionError("no body is read")


@asynccontextmanager
async def limited(**limits: int) -> AsyncIterator[Api]:
    api = Api(**limits)
    try:
        yield api
    finally:
        await api.end_all()


async def refused_status(api: Api, path: str, **scope: Any) -> int:
    async with asyncio.timeout(60):
        return await api.status(path, **scope)


async def test_agents_have_room_when_users_have_none() -> None:
    async with limited(connections=30, for_agents=20, per_address=1000) as api:
        await api.start("/v1/events", 10)
        assert await refused_status(api, "/v1/bots") == 503
        await api.start(HEARTBEAT, 500, agent=None)
        assert api.refused == ["connections"]


async def test_users_have_room_again_after_a_request() -> None:
    async with limited(connections=30, for_agents=20, per_address=1000) as api:
        await api.start("/v1/events", 10)
        await api.end_all()
        assert await api.status("/v1/bots") == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_load_balancer_is_answered_when_users_have_no_room(path: str) -> None:
    async with limited(connections=30, for_agents=20, per_address=1000) as api:
        await api.start("/v1/events", 10)
        await api.start(path)


async def test_one_address_cannot_use_the_room_of_all_users() -> None:
    async with limited(per_address=5) as api:
        await api.start("/v1/events", 5)
        assert await refused_status(api, "/v1/bots") == 429
        await api.start("/v1/bots", host="192.0.2.2")
        await api.start(HEARTBEAT, 100, agent=None)
        assert api.refused == ["address"]


async def test_one_agent_cannot_use_the_room_of_all_agents() -> None:
    async with limited(per_agent=3) as api:
        await api.start(HEARTBEAT, 3, agent=7)
        assert await refused_status(api, HEARTBEAT, agent=7) == 429
        await api.start(HEARTBEAT, agent=8)
        assert api.refused == ["agent"]


async def test_a_thousand_agents_may_wait_for_their_assignments() -> None:
    async with limited() as api:
        for agent in range(1000):
            await api.start("/v1/agent/assignment", agent=agent)
        assert api.refused == []
