"""Requests with retries, over a blocking and over an asynchronous HTTP client.

The calls of the API are written once, as coroutines over `Connection`. `BlockingConnection` is a
`Connection` whose coroutines block instead of suspending, so that `synchronous.py` can run a call
without an event loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol, Self, TypedDict
from urllib.parse import urlsplit

import httpx
import stamina

from botpool.client import errors
from botpool.client.responses import Response, refusal, successful

TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class Connection(Protocol):
    """A server, an API key and the HTTP client for them."""

    @property
    def url(self) -> str: ...

    def duplicate(self) -> Self:
        """Return a further connection to the same server with the same key."""

    async def request(
        self, method: str, path: str, *, repeatable: bool = True, **request: Any
    ) -> Response:
        """Send a request and return the successful response.

        A request that was not sent is retried. A request whose response was lost is retried only
        if it is `repeatable`: releasing a slot twice could hit its next bot.
        """

    def stream(
        self, path: str, *, read_timeout_s: float | None, **request: Any
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send a request whose response is read in parts. It is not retried."""

    async def sleep(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class AsyncConnection:
    """A connection for an event loop."""

    def __init__(
        self, url: str, key: str, attempts: int, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.url = url.rstrip("/")
        self._again = (url, key, attempts, transport)
        self._attempts = attempts
        self._http = httpx.AsyncClient(**_options(self.url, key), transport=transport)

    def duplicate(self) -> Self:
        return type(self)(*self._again)

    async def request(
        self, method: str, path: str, *, repeatable: bool = True, **request: Any
    ) -> Response:
        with _client_errors(self.url):
            async for attempt in _attempts(self._attempts, repeatable):
                with attempt:
                    response = await self._http.request(method, path, **request)
        return successful(self.url, response)

    @asynccontextmanager
    async def stream(
        self, path: str, *, read_timeout_s: float | None, **request: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = _stream_timeout(read_timeout_s)
        with _client_errors(self.url):
            async with self._http.stream("GET", path, timeout=timeout, **request) as response:
                if not response.is_success:
                    await response.aread()
                    raise refusal(self.url, response)
                yield response.aiter_bytes()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._http.aclose()


class BlockingConnection:
    """A connection whose coroutines block the thread and never suspend."""

    def __init__(
        self, url: str, key: str, attempts: int, transport: httpx.BaseTransport | None
    ) -> None:
        self.url = url.rstrip("/")
        self.last_response: Response | None = None
        self._again = (url, key, attempts, transport)
        self._attempts = attempts
        self._http = httpx.Client(**_options(self.url, key), transport=transport)

    def duplicate(self) -> Self:
        return type(self)(*self._again)

    async def request(
        self, method: str, path: str, *, repeatable: bool = True, **request: Any
    ) -> Response:
        with _client_errors(self.url):
            for attempt in _attempts(self._attempts, repeatable):
                with attempt:
                    response = self._http.request(method, path, **request)
        self.last_response = successful(self.url, response)
        return self.last_response

    @asynccontextmanager
    async def stream(
        self, path: str, *, read_timeout_s: float | None, **request: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = _stream_timeout(read_timeout_s)
        with (
            _client_errors(self.url),
            self._http.stream("GET", path, timeout=timeout, **request) as response,
        ):
            if not response.is_success:
                response.read()
                raise refusal(self.url, response)
            yield _without_suspending(response.iter_bytes())

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 # this connection blocks its thread

    async def close(self) -> None:
        self._http.close()


class _Options(TypedDict):
    base_url: str
    headers: dict[str, str]
    timeout: httpx.Timeout
    trust_env: bool


def _options(url: str, key: str) -> _Options:
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {key}"},
        "timeout": httpx.Timeout(TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
        # A proxy from the environment cannot reach a server on this machine.
        "trust_env": not is_local(url),
    }


def is_local(url: str) -> bool:
    """Whether the URL names this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _attempts(attempts: int, repeatable: bool) -> Any:
    retried = httpx.TransportError if repeatable else _NOT_SENT
    return stamina.retry_context(on=retried, attempts=attempts, wait_initial=0.2, timeout=None)


def _stream_timeout(read_timeout_s: float | None) -> httpx.Timeout:
    return httpx.Timeout(TIMEOUT_S, connect=_CONNECT_TIMEOUT_S, read=read_timeout_s)


async def _without_suspending(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@contextmanager
def _client_errors(url: str) -> Iterator[None]:
    """Raise the errors of httpx as the client's own."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        problem = f"no connection within {_CONNECT_TIMEOUT_S:.0f} s"
        raise errors.Unreachable(url, problem) from error
    except _NOT_SENT as error:
        raise errors.Unreachable(url, _describe_cause(error)) from error
    except httpx.TimeoutException as error:
        problem = f"no response within {TIMEOUT_S:.0f} s"
        raise errors.ResponseLost(url, problem) from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise errors.ResponseLost(url, _describe_cause(error)) from error


def _describe_cause(error: Exception) -> str:
    """The operating system's message, which httpx wraps in two exceptions, or the error's own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
