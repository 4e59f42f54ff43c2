"""One request to Coolify: bounded, paid for, and its failure understood as what it is.

An answer that Coolify itself did not write (a proxy's page, half an answer, none) says nothing
about any application. Only reading is repeated, once; whether a write arrived must be looked for.
"""

import asyncio
import email.utils
import json
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import httpx

from botpool.backends.coolify import refusals
from botpool.backends.coolify.answers import message_of
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.errand import Errand
from botpool.backends.protocol import RequestBudget
from botpool.domain.errors import BackendRefused, BackendUnavailable, BudgetExhausted

_CONNECTIONS = 16
_PAUSE_S = 60.0
"""How long a 429 that does not say so keeps us away."""
_LONGEST_PAUSE_S = 600.0


class Ability(Enum):
    """What a token must be allowed for a call."""

    READ = auto()
    READ_SENSITIVE = auto()
    WRITE = auto()
    DEPLOY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request. Those that only read may be repeated."""

    method: str
    path: str
    ability: Ability
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)
    is_text: bool = False

    @property
    def may_be_repeated(self) -> bool:
        return self.ability in (Ability.READ, Ability.READ_SENSITIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Coolify's own answer: done, or refused for a reason that depends on the call."""

    status: int
    content: Any = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        return message_of(self.content) or ""


@dataclass(eq=False)
class ServerFault(BackendUnavailable):
    """A 5xx. What was asked for may have happened."""

    status: int


class Connection:
    """The shared client. Remembers what was refused, until the like of it succeeds."""

    def __init__(
        self,
        config: CoolifyConfig,
        budget: RequestBudget,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self.budget = budget
        self.acts_by_get = False
        """Whether this Coolify wants starts and stops as GET."""
        self._retry_wait_s = config.retry_wait_s
        self._refused: dict[Hashable, BackendRefused] = {}
        self._client = httpx.AsyncClient(
            base_url=f"{config.url.rstrip('/')}/api/v1",
            headers={"Accept": "application/json", "Authorization": f"Bearer {config.token}"},
            limits=httpx.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS
            ),
            transport=transport,
        )

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def refused(self) -> tuple[BackendRefused, ...]:
        return tuple(self._refused.values())

    async def send(self, errand: Errand, call: Call) -> Answer:
        """The answer. The request was paid for already; only a repetition is paid for here."""
        try:
            return await self._send_once(errand, call)
        except BudgetExhausted:
            raise
        except BackendUnavailable as error:
            if not call.may_be_repeated or errand.remaining_s() <= self._retry_wait_s:
                raise
            failure = error
        try:
            await self.budget.take(errand.purpose, 1)
        except BudgetExhausted:
            raise failure from None
        await asyncio.sleep(self._retry_wait_s)
        return await self._send_once(errand, call)

    async def _send_once(self, errand: Errand, call: Call) -> Answer:
        headers = {"X-Correlation-ID": errand.correlation_id} if errand.correlation_id else {}
        try:
            response = await self._client.request(
                call.method,
                call.path,
                params=dict(call.query),
                json=call.body,
                headers=headers,
                timeout=errand.remaining_s(),
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The type says more than the text, which is empty for timeouts and resets.
            raise BackendUnavailable(f"{errand.name}: {type(error).__name__} {error}") from error
        return await self._understood(errand, call, response)

    async def _understood(self, errand: Errand, call: Call, response: httpx.Response) -> Answer:
        status = response.status_code
        if status == 429:
            pause_s = _pause_s(response.headers.get("Retry-After", ""))
            await self.budget.pause(pause_s)
            raise BudgetExhausted("Coolify takes no more requests now", pause_s)
        if status >= 500:
            raise ServerFault(f"{errand.name}: Coolify answered {status}", status)
        if status in (301, 308):
            raise self.refuse(
                call.ability, refusals.moved(response.headers.get("Location", "nowhere"))
            )
        if call.is_text and status == 200:
            return self._succeeded(call, Answer(status=status, content=response.text))
        answer = Answer(status=status, content=_json_of(errand, response))
        if answer.is_success:
            return self._succeeded(call, answer)
        if refusal := refusals.not_allowed(status, answer.message):
            # Who may not call at all may not read either: then the next read shows that it may.
            lacks_ability = status == 403 and "permission" in answer.message.lower()
            raise self.refuse(call.ability if lacks_ability else Ability.READ, refusal)
        if status < 400 or not answer.message:
            raise BackendUnavailable(f"{errand.name}: an answer {status} that is not Coolify's")
        return answer

    def _succeeded(self, call: Call, answer: Answer) -> Answer:
        self.accepted(call.ability)
        return answer

    def refuse(self, topic: Hashable, refusal: BackendRefused) -> BackendRefused:
        """Remember a refusal until a call of the same topic, mostly an ability, is accepted."""
        self._refused[topic] = refusal
        return refusal

    def accepted(self, topic: Hashable) -> None:
        self._refused.pop(topic, None)


def _json_of(errand: Errand, response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        kind = response.headers.get("Content-Type", "nothing").partition(";")[0]
        problem = f"{errand.name}: answer {response.status_code} is {kind} and no whole JSON"
        raise BackendUnavailable(problem) from None


def _pause_s(retry_after: str) -> float:
    """Seconds, or the date that HTTP also allows."""
    if retry_after.strip().isdecimal():
        seconds = float(retry_after)
    else:
        try:
            until = email.utils.parsedate_to_datetime(retry_after)
            seconds = until.timestamp() - time.time()
        except ValueError:
            seconds = _PAUSE_S
    return min(max(seconds, 1.0), _LONGEST_PAUSE_S)
