"""A Coolify that answers what a test says, and a backend that asks it."""

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

Answer = Callable[[httpx.Request], httpx.Response]
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


class Script:
    """A Coolify that answers as it is told: by method and path, later words over earlier ones."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.budget = CountingBudget()
        self._answers: dict[str, Answer] = {}
        self.says("GET /applications", self.tagged)
        self.says("GET /deployments", [])
        self.says("GET /deployments/applications/ours", {"count": 0, "deployments": []})
        self.variables: dict[str, str] = {}
        self.says("GET /applications/ours/envs", self.read_variables)
        self.says("PATCH /applications/ours/envs/bulk", self.write_variables)
        self.says("GET /version", httpx.Response(200, text="4.3.2"))
        self.backend = CoolifyBackend(
            config(), self.budget, transport=httpx.MockTransport(self._answer)
        )

    @staticmethod
    def tagged(request: httpx.Request) -> httpx.Response:
        is_ours = request.url.params.get("tag") == "botpool-one"
        return httpx.Response(200, json=[APPLICATION] if is_ours else [])

    def read_variables(self, request: httpx.Request) -> httpx.Response:
        shown = [
            {"key": key, "value": value, "is_preview": False}
            for key, value in self.variables.items()
        ]
        return httpx.Response(200, json=shown)

    def write_variables(self, request: httpx.Request) -> httpx.Response:
        written = json.loads(request.content)["data"]
        for item in written:
            assert set(item) == FIELDS
            self.variables[item["key"]] = item["value"]
        return httpx.Response(201, json=written)

    def says(self, call: str, answer: Any, status: int = 200) -> None:
        def respond(request: httpx.Request) -> httpx.Response:
            if callable(answer):
                return answer(request)  # type: ignore[no-any-return]
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, httpx.Response):
                return answer
            return httpx.Response(status, json=answer)

        self._answers[call] = respond

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        path = request.url.path.removeprefix("/api/v1")
        answer = self._answers.get(f"{request.method} {path}") or self._answers.get("*")
        if answer is None:
            return httpx.Response(404, json={"message": "Not found."})
        return answer(request)

    def calls(self) -> list[str]:
        return [f"{each.method} {each.url.path.removeprefix('/api/v1')}" for each in self.asked]


def start_order(number: int = 12) -> StartRequest:
    return StartRequest(
        container_id=OURS,
        assignment_id=AssignmentId(number),
        correlation_id="correlation-12",
        environment={"BOT_DATA": "{}"},
    )


async def list_owned(script: Script) -> None:
    await script.backend.list_owned(timeout_s=2)


async def observe(script: Script) -> ContainerState:
    return (await script.backend.observe([OURS], timeout_s=2))[OURS].state
