"""Limits for requests in progress, with room that only agents use.

Requests of agents do not count towards these limits, so that users cannot displace heartbeats. An
agent has a limit of its own, so that one container cannot use the room of all others.
"""

from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from botpool.api.connections import ConnectionLimits, source_of
from botpool.api.problems import problem_response
from botpool.domain.errors import LimitExceeded
from botpool.domain.ids import AssignmentId

_AGENT_PATHS = ("/v1/agent/", "/api/")
"""Routes of agents: Botpool's own, and those of other projects' protocols."""
_UNLIMITED_PATHS = ("/healthz", "/readyz")
"""A load balancer that gets no answer here would take the replica away from agents too."""
K = TypeVar("K")
_RETRY = {"Retry-After": "2"}


class ActiveRequests:
    """Responds 503 or 429 when too many requests are in progress."""

    def __init__(
        self, app: ASGIApp, *, limits: ConnectionLimits, on_refused: Callable[[str], None]
    ) -> None:
        """`on_refused` is called with the limit that refused a request."""
        self._app = app
        self._on_refused = on_refused
        self._most = max(1, limits.connections - limits.for_agents)
        self._most_per_source = limits.per_address
        self._most_per_agent = limits.per_agent
        self._active = 0
        self._by_source: dict[str, int] = {}
        self._by_agent: dict[AssignmentId, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNLIMITED_PATHS:
            await self._app(scope, receive, send)
        elif scope["path"].startswith(_AGENT_PATHS):
            request = _AgentRequest(self._by_agent, self._most_per_agent, self._on_refused)
            scope.setdefault("state", {})["agent_request"] = request
            try:
                await self._app(scope, receive, send)
            finally:
                request.end()
        else:
            await self._run(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        source = source_of(client[0]) if client else ""
        if (refusal := self._refusal(source)) is not None:
            await refusal(scope, receive, send)
            return
        self._active += 1
        self._by_source[source] = self._by_source.get(source, 0) + 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._active -= 1
            _remove_one(self._by_source, source)

    def _refusal(self, source: str) -> Response | None:
        if self._active >= self._most:
            self._on_refused("connections")
            limit = "limits.connections without limits.connections_for_agents"
            detail = (
                f"This server has {self._most} requests in progress, as many as {limit} allows."
            )
            return problem_response(503, detail, limit="limits.connections", headers=_RETRY)
        if self._by_source.get(source, 0) >= self._most_per_source:
            self._on_refused("address")
            most = f"{self._most_per_source} requests in progress (limits.connections_per_address)"
            return problem_response(
                429,
                f"Your address has {most}.",
                limit="limits.connections_per_address",
                headers=_RETRY,
            )
        return None


def count_agent_request(request: Request, assignment_id: AssignmentId) -> None:
    """Count the request for its agent. Raises 429 if the agent has too many in progress."""
    agent_request = getattr(request.state, "agent_request", None)
    if agent_request is not None:
        agent_request.begin(assignment_id)


class _AgentRequest:
    """A request on a route of agents; it counts once its token is known to be valid."""

    def __init__(
        self, by_agent: dict[AssignmentId, int], most: int, on_refused: Callable[[str], None]
    ) -> None:
        self._by_agent = by_agent
        self._on_refused = on_refused
        self._most = most
        self._assignment_id: AssignmentId | None = None

    def begin(self, assignment_id: AssignmentId) -> None:
        """Count the request for its agent. Raises 429 if the agent has too many."""
        if self._by_agent.get(assignment_id, 0) >= self._most:
            self._on_refused("agent")
            limit = "limits.requests_per_agent"
            detail = f"This agent has {self._most} requests in progress ({limit})."
            raise LimitExceeded(limit, detail, retry_after_s=2)
        self._assignment_id = assignment_id
        self._by_agent[assignment_id] = self._by_agent.get(assignment_id, 0) + 1

    def end(self) -> None:
        if self._assignment_id is not None:
            _remove_one(self._by_agent, self._assignment_id)


def _remove_one(counts: dict[K, int], key: K) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
