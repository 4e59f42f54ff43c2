"""Sends single requests to Coolify and classifies their failures.

A response that does not come from Coolify itself (a proxy's page, half a response, none) says
nothing about any application. Only a read request is repeated, once.
"""

import asyncio
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import httpx

from botpool.backends.coolify import error_messages
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.operation import Operation
from botpool.backends.coolify.responses import message_of
from botpool.backends.protocol import RequestBudget
from botpool.backends.retry_after import retry_after_s
from botpool.domain.errors import BackendRefused, BackendUnavailable, BudgetExhausted

_MAX_CONNECTIONS = 16
_DEFAULT_PAUSE_S = 60.0
"""The pause after a 429 without `Retry-After`."""
_MAX_PAUSE_S = 600.0


class Ability(Enum):
    """The permission of the token that a call requires."""

    READ = auto()
    READ_SENSITIVE = auto()
    WRITE = auto()
    DEPLOY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to Coolify."""

    method: str
    path: str
    ability: Ability
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)
    is_text: bool = False

    @property
    def is_repeatable(self) -> bool:
        return self.ability in (Ability.READ, Ability.READ_SENSITIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response of Coolify itself: a success, or an error that the caller interprets."""

    status: int
    content: Any = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        return message_of(self.content) or ""


@dataclass(eq=False)
class ServerError(BackendUnavailable):
    """Coolify answered 5xx. The request may have worked."""

    status: int


class Connection:
    """The shared HTTP client. Remembers refusals until a similar call succeeds."""

    def __init__(
        self,
        config: CoolifyConfig,
        budget: RequestBudget,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self.budget = budget
        self._retry_wait_s = config.retry_wait_s
        self._refused: dict[Hashable, BackendRefused] = {}
        self.redirected_to: str | None = None
        """The address to which Coolify last redirected a request."""
        self._client = httpx.AsyncClient(
            base_url=config.api_url,
            headers={"Accept": "application/json", "Authorization": f"Bearer {config.token}"},
            limits=httpx.Limits(
                max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS
            ),
            transport=transport,
        )

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def refused(self) -> tuple[BackendRefused, ...]:
        return tuple(self._refused.values())

    async def send(self, operation: Operation, call: Call) -> Response:
        """Send a request whose budget is reserved. A repetition takes its own budget."""
        try:
            return await self._send_once(operation, call)
        except BudgetExhausted:
            raise
        except BackendUnavailable as error:
            if not call.is_repeatable or operation.remaining_s() <= self._retry_wait_s:
                raise
            failure = error
        try:
            await self.budget.take(operation.purpose, 1)
        except BudgetExhausted:
            raise failure from None
        await asyncio.sleep(self._retry_wait_s)
        return await self._send_once(operation, call)

    async def _send_once(self, operation: Operation, call: Call) -> Response:
        headers = {"X-Correlation-ID": operation.correlation_id} if operation.correlation_id else {}
        try:
            received = await self._client.request(
                call.method,
                call.path,
                params=dict(call.query),
                json=call.body,
                headers=headers,
                timeout=operation.remaining_s(),
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The text is empty for timeouts and resets, so the type is added.
            raise BackendUnavailable(f"{operation.name}: {type(error).__name__} {error}") from error
        return await self._classify(operation, call, received)

    async def _classify(
        self, operation: Operation, call: Call, received: httpx.Response
    ) -> Response:
        status = received.status_code
        if status == 429:
            pause_s = _pause_s(received.headers.get("Retry-After", ""))
            await self.budget.pause(pause_s)
            raise BudgetExhausted("Coolify limits requests (429)", pause_s)
        if status >= 500:
            raise ServerError(f"{operation.name}: Coolify answered {status}", status)
        if status in (301, 308):
            self.redirected_to = received.headers.get("Location")
            raise self.refuse(call.ability, error_messages.redirected())
        is_text = call.is_text and status == 200
        content = received.text if is_text else _parse_json(operation, received)
        response = Response(status=status, content=content)
        if response.is_success:
            self.accepted(call.ability)
            return response
        if refusal := error_messages.not_authorized(status, response.message):
            # Unless one ability is missing, all calls fail; the next successful read clears this.
            lacks_ability = status == 403 and "permission" in response.message.lower()
            raise self.refuse(call.ability if lacks_ability else Ability.READ, refusal)
        if status < 400 or not response.message:
            raise BackendUnavailable(
                f"{operation.name}: the response {status} does not come from Coolify"
            )
        return response

    def refuse(self, topic: Hashable, refusal: BackendRefused) -> BackendRefused:
        """Remember a refusal until a call with the same topic, usually an ability, succeeds."""
        self._refused[topic] = refusal
        return refusal

    def accepted(self, topic: Hashable) -> None:
        self._refused.pop(topic, None)


def _parse_json(operation: Operation, received: httpx.Response) -> Any:
    try:
        return json.loads(received.content)
    except (ValueError, RecursionError):
        kind = received.headers.get("Content-Type", "nothing").partition(";")[0]
        problem = f"{operation.name}: response {received.status_code} is {kind}, not complete JSON"
        raise BackendUnavailable(problem) from None


def _pause_s(retry_after: str) -> float:
    return retry_after_s(
        retry_after, default_s=_DEFAULT_PAUSE_S, at_least_s=1.0, at_most_s=_MAX_PAUSE_S
    )
