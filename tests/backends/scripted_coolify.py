"""A Coolify with scripted responses, and a backend that calls it."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from botpool.backends.coolify import CoolifyBackend
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.coolify_harness import CountingBudget, config
from tests.backends.harness import SPEC

Responder = Callable[[httpx.Request], httpx.Response]
OURS = ContainerId("ours")
APPLICATION = {
    "uuid": "ours",
    "name": SPEC.name,
    "status": "exited:unhealthy",
    "server_status": True,
    "docker_registry_image_name": "bot",
    "docker_registry_image_tag": "1",
    "limits_cpus": "1",
    "limits_memory": "2048m",
    "created_at": "2026-08-01T00:00:00.000000Z",
}
FIELDS = {"key", "value", "is_preview", "is_literal", "is_multiline", "is_shown_once"}
HTML = "<!DOCTYPE html><html><body>Not here</body></html>"


class ScriptedCoolify:
    """Answers by method and path; a later response replaces an earlier one."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.budget = CountingBudget()
        self._responses: dict[str, Responder] = {}
        self.respond("GET /applications", self.tagged)
        self.respond("GET /deployments", [])
        self.respond("GET /deployments/applications/ours", {"count": 0, "deployments": []})
        self.variables: dict[str, str] = {}
        self.respond("GET /applications/ours/envs", self.read_variables)
        self.respond("PATCH /applications/ours/envs/bulk", self.write_variables)
        self.respond("GET /version", httpx.Response(200, text="4.3.11"))
        self.backend = CoolifyBackend(
            config(), self.budget, transport=httpx.MockTransport(self._answer)
        )

    @staticmethod
    def tagged(request: httpx.Request) -> httpx.Response:
        is_ours = request.url.params.get("tag") == "botpool-one"
        return httpx.Response(200, json=[APPLICATION] if is_ours else [])

    def read_variables(self, request: httpx.Request) -> httpx.Response:
        listed = [
            {"key": key, "value": value, "is_preview": False}
            for key, value in self.variables.items()
        ]
        return httpx.Response(200, json=listed)

    def write_variables(self, request: httpx.Request) -> httpx.Response:
        written = json.loads(request.content)["data"]
        for item in written:
            assert set(item) == FIELDS
            self.variables[item["key"]] = item["value"]
        return httpx.Response(201, json=written)

    def respond(self, call: str, response: Any, status: int = 200) -> None:
        def responder(request: httpx.Request) -> httpx.Response:
            if callable(response):
                return response(request)  # type: ignore[no-any-return]
            if isinstance(response, Exception):
                raise response
            if isinstance(response, httpx.Response):
                return response
            return httpx.Response(status, json=response)

        self._responses[call] = responder

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.path.removeprefix("/api/v1")
        responder = self._responses.get(f"{request.method} {path}") or self._responses.get("*")
        if responder is None:
            return httpx.Response(404, json={"message": "Not found."})
        return responder(request)

    def calls(self) -> list[str]:
        return [
            f"{request.method} {request.url.path.removeprefix('/api/v1')}"
            for request in self.requests
        ]


def start_request(number: int = 12) -> StartRequest:
    return StartRequest(
        container_id=OURS,
        assignment_id=AssignmentId(number),
        correlation_id="correlation-12",
        environment={"BOT_DATA": "{}"},
    )


async def list_owned(coolify: ScriptedCoolify) -> None:
    await coolify.backend.list_owned(timeout_s=2)


async def observe(coolify: ScriptedCoolify) -> ContainerState:
    return (await coolify.backend.observe([OURS], timeout_s=2))[OURS].state
