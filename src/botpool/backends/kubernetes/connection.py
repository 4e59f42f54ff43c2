"""Sends single requests to the API server and classifies their failures.

Every request of this backend may be repeated: a create names the run, and a patch or delete names
the uid. So a request whose connection broke is sent once more.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from structlog.contextvars import get_contextvars

from botpool.backends.kubernetes import error_messages
from botpool.backends.kubernetes.access import Access, find_access
from botpool.backends.kubernetes.config import KubernetesConfig
from botpool.backends.protocol import RequestBudget, RequestPurpose
from botpool.backends.retry_after import retry_after_s
from botpool.domain.errors import BackendRefused, BackendUnavailable, BudgetExhausted

_MAX_CONNECTIONS = 32
_KEEP_ALIVE_S = 60.0
"""How long an unused connection is kept: a start should not wait for a TLS handshake."""
_CONNECT_TIMEOUT_S = 5.0
_DEFAULT_PAUSE_S = 1.0
_MAX_PAUSE_S = 300.0
MERGE_PATCH = "application/merge-patch+json"


@dataclass(slots=True, kw_only=True)
class Operation:
    """One operation of the backend: its requests share a purpose and a time limit."""

    name: str
    purpose: RequestPurpose
    timeout_s: float
    is_per_request: bool = False
    """Whether each request has the whole time limit, for an operation that only ends when all of
    many pages are read. Not for an operation that needs a lease."""
    ends_at: float = field(init=False)
    _limit: asyncio.Timeout | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.ends_at = time.monotonic() + self.timeout_s

    @contextlib.asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Cancel the operation at the end of its time: raises BackendUnavailable."""
        try:
            async with asyncio.timeout(self.timeout_s) as self._limit:
                yield
        except TimeoutError as error:
            problem = f"{self.name} did not end within {self.timeout_s:g} s"
            if self.is_per_request:
                problem = f"{self.name}: a request did not end within {self.timeout_s:g} s"
            raise BackendUnavailable(problem) from error

    def begin_request(self) -> None:
        """Give the next request the whole time limit, if each request has its own."""
        if not self.is_per_request:
            return
        self.ends_at = time.monotonic() + self.timeout_s
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self.timeout_s)

    def remaining_s(self) -> float:
        """Return the time left. A process that was frozen sends nothing after its lease."""
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise BackendUnavailable(f"{self.name} did not end in time")
        return remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to the API server."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)
    content_type: str = "application/json"
    is_optional: bool = False
    """Whether Botpool can work without the permission for this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer of the API server itself: a success, or an error that the caller interprets."""

    status: int
    content: Any = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        return error_messages.message_of(self.content)


class Connection:
    """The shared HTTP client. Remembers refusals until a similar call succeeds."""

    def __init__(
        self,
        config: KubernetesConfig,
        budget: RequestBudget,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._config = config
        self._budget = budget
        self._transport = transport
        self._access: Access | None = None
        self._client: httpx.AsyncClient | None = None
        self._refused: dict[Hashable, BackendRefused] = {}

    @property
    def access(self) -> Access:
        """The cluster, found at the first use: its configuration may appear later."""
        if self._access is None:
            self._access = find_access(self._config)
        return self._access

    @property
    def refused(self) -> tuple[BackendRefused, ...]:
        return tuple(self._refused.values())

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.access.namespace}/pods"

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(self, operation: Operation, call: Call) -> Response:
        """Send a request, and again after a broken connection or a refused token."""
        operation.begin_request()
        await self._budget.take(operation.purpose, 1)
        try:
            received = await self._exchange(operation, call)
        except httpx.TimeoutException as error:
            raise _no_answer(operation, error) from error
        except httpx.TransportError:
            received = await self._repeat(operation, call, renew_token=False)
        if received.status_code == 401:
            received = await self._repeat(operation, call, renew_token=True)
        return await self._classify(operation, call, received)

    @contextlib.asynccontextmanager
    async def stream(self, call: Call, *, silence_s: float | None) -> AsyncIterator[httpx.Response]:
        """Open a stream of a watch or a log. Raises BackendError; httpx errors of the body pass."""
        timeout = httpx.Timeout(silence_s, connect=_CONNECT_TIMEOUT_S)
        operation = Operation(name="stream", purpose=RequestPurpose.OBSERVE, timeout_s=30.0)
        await self._budget.take(operation.purpose, 1)
        for renew in (False, True):
            headers = await self._headers(call, renew_token=renew)
            request = self._http().build_request(
                call.method, call.path, params=dict(call.query), headers=headers, timeout=timeout
            )
            try:
                received = await self._http().send(request, stream=True)
            except httpx.HTTPError as error:
                raise _no_answer(operation, error) from error
            if received.status_code == 401 and not renew:
                await received.aclose()
                continue
            break
        try:
            if received.status_code >= 400:
                await received.aread()
                await self._classify(operation, call, received)
            yield received
        finally:
            await received.aclose()

    async def _repeat(
        self, operation: Operation, call: Call, *, renew_token: bool
    ) -> httpx.Response:
        await self._budget.take(operation.purpose, 1)
        try:
            return await self._exchange(operation, call, renew_token=renew_token)
        except httpx.HTTPError as error:
            raise _no_answer(operation, error) from error

    async def _exchange(
        self, operation: Operation, call: Call, *, renew_token: bool = False
    ) -> httpx.Response:
        remaining_s = operation.remaining_s()
        return await self._http().request(
            call.method,
            call.path,
            params=dict(call.query),
            content=None if call.body is None else json.dumps(call.body).encode(),
            headers=await self._headers(call, renew_token=renew_token),
            timeout=httpx.Timeout(remaining_s, connect=min(remaining_s, _CONNECT_TIMEOUT_S)),
        )

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            access = self.access
            limits = httpx.Limits(
                max_connections=None,
                max_keepalive_connections=_MAX_CONNECTIONS,
                keepalive_expiry=_KEEP_ALIVE_S,
            )
            self._client = httpx.AsyncClient(
                base_url=access.server,
                verify=access.tls,
                limits=limits,
                transport=self._transport,
                trust_env=False,
            )
        return self._client

    async def _headers(self, call: Call, *, renew_token: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "botpool"}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if token := await self.access.token(renew=renew_token):
            headers["Authorization"] = f"Bearer {token}"
        if correlation_id := get_contextvars().get("correlation_id"):
            headers["X-Correlation-ID"] = str(correlation_id)
        return headers

    async def _classify(
        self, operation: Operation, call: Call, received: httpx.Response
    ) -> Response:
        status = received.status_code
        if status == 401:
            raise self.refuse("credentials", error_messages.unauthorized())
        self.accepted("credentials")
        if status == 429:
            pause_s = _pause_s(received.headers.get("Retry-After", ""))
            await self._budget.pause(pause_s)
            raise BudgetExhausted("the API server limits requests (429)", pause_s)
        content = _parse_json(operation, received)
        response = Response(status=status, content=content)
        topic = (call.method, call.path.rpartition("/pods")[1])
        if response.is_success:
            self.accepted(topic)
            if call.method == "POST" and call.path == self.pods_path:
                self.accepted("namespace")  # A list of a missing namespace is empty, no failure.
            return response
        if status >= 500:
            problem = f"{operation.name}: the API server answered {status}: {response.message}"
            raise BackendUnavailable(problem)
        if not response.message:
            problem = f"{operation.name}: the answer {status} does not come from an API server"
            raise BackendUnavailable(problem)
        if status == 403 and (refusal := error_messages.forbidden(content)):
            raise refusal if call.is_optional else self.refuse(topic, refusal)
        if status == 404 and (refusal := error_messages.missing_namespace(content)):
            raise self.refuse("namespace", refusal)
        return response

    def refuse(self, topic: Hashable, refusal: BackendRefused) -> BackendRefused:
        """Remember a refusal until a call with the same topic succeeds."""
        self._refused[topic] = refusal
        return refusal

    def accepted(self, topic: Hashable) -> None:
        self._refused.pop(topic, None)


def _no_answer(operation: Operation, error: Exception) -> BackendUnavailable:
    # The text is empty for timeouts and resets, so the type is added.
    return BackendUnavailable(f"{operation.name}: {type(error).__name__} {error}")


def _parse_json(operation: Operation, received: httpx.Response) -> Any:
    if received.status_code == 204:
        return None
    try:
        return json.loads(received.content)
    except (ValueError, RecursionError):
        kind = received.headers.get("Content-Type", "nothing").partition(";")[0]
        problem = f"{operation.name}: answer {received.status_code} is {kind}, not complete JSON"
        raise BackendUnavailable(problem) from None


def _pause_s(retry_after: str) -> float:
    return retry_after_s(
        retry_after, default_s=_DEFAULT_PAUSE_S, at_least_s=_DEFAULT_PAUSE_S, at_most_s=_MAX_PAUSE_S
    )
