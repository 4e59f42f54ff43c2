"""An API server that gives scripted answers, for the Kubernetes backend without a cluster."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx

from botpool.backends.kubernetes import KubernetesBackend, KubernetesConfig, access
from botpool.backends.kubernetes.connection import Connection
from botpool.backends.protocol import RequestPurpose
from tests.backends.recorded_answers import answer

Answer = httpx.Response | Callable[[httpx.Request], httpx.Response]


def recorded(name: str, **headers: str) -> httpx.Response:
    """Answer with a recorded Status or object."""
    content = answer(name)
    status = int(content.get("code", 200)) if content.get("kind") == "Status" else 200
    return httpx.Response(status, json=content, headers=headers)


class GrantingBudget:
    """Grants every request, and keeps what was asked of it."""

    def __init__(self) -> None:
        self.taken: list[tuple[RequestPurpose, int]] = []
        self.pauses: list[float] = []

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        self.taken.append((purpose, requests))

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


class ScriptedKubernetes:
    """Answers requests by their method and the end of their path, in order."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        self.budget = GrantingBudget()
        self.tokens = ["first"]

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Script answers; the last one is repeated."""
        self.answers[method, path] = list(answers)

    def backend(self, **settings: Any) -> KubernetesBackend:
        config = KubernetesConfig(installation_id="one", **settings)
        backend = KubernetesBackend(
            config, self.budget, transport=httpx.MockTransport(self._answer)
        )
        backend._connection._access = _ScriptedAccess(self)
        return backend

    def connection_of(self, backend: KubernetesBackend) -> Connection:
        return backend._connection

    def sent(self, method: str) -> list[httpx.Request]:
        return [request for request in self.requests if request.method == method]

    def bodies(self, method: str) -> list[Any]:
        return [json.loads(request.content) for request in self.sent(method)]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        await asyncio.sleep(0)  # As over a network, other tasks and time limits run meanwhile.
        path = request.url.path.removeprefix("/api/v1/namespaces/bots")
        for (method, wanted), answers in self.answers.items():
            if method == request.method and wanted in (path, "*"):
                chosen = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(chosen, httpx.Response):
                    return httpx.Response(
                        chosen.status_code, content=chosen.content, headers=chosen.headers
                    )
                return chosen(request)
        raise AssertionError(f"no answer for {request.method} {path}")


class _ScriptedAccess(access.Access):
    """Credentials whose token rotates."""

    def __init__(self, server: ScriptedKubernetes) -> None:
        super().__init__(server="https://kubernetes.test", namespace="bots", tls=False)
        self._tokens = server.tokens

    async def token(self, *, renew: bool = False) -> str | None:
        if renew and len(self._tokens) > 1:
            self._tokens.pop(0)
        return self._tokens[0]
