"""Sends one request of a webhook and reads the start of its answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botpool import __version__
from botpool.domain.webhook_signing import signed_headers, unseal
from botpool.domain.webhooks import TIMEOUT_S, Answer, retry_after
from botpool.engine.runtime.clock import loop_time

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from aiohttp.abc import AbstractResolver

MAX_CONNECTIONS = 256
_MAX_ANSWER = 2048
_MAX_PROBLEM = 300
_UNSEALABLE = (
    "its secret was encrypted with an installation secret that is no longer set. Add that secret "
    "to installation.secrets again, or rotate the webhook's secret"
)


class Sender:
    """Signs and sends requests. Redirects are not followed, and proxies are not used."""

    def __init__(
        self,
        keys: Sequence[bytes],
        *,
        allow_private: bool,
        timeout_s: float = TIMEOUT_S,
        resolver: "Callable[[], AbstractResolver] | None" = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._resolver = resolver
        self._now = now
        self._session: ClientSession | None = None

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    async def send(
        self, url: str, event_id: str, payload: str, sealed: Sequence[bytes | None]
    ) -> Answer:
        """Send an event once. Never raises: the answer has the problem."""
        began_at = loop_time()
        secrets = [unseal(each, self._keys) for each in sealed if each is not None]
        usable = [secret for secret in secrets if secret is not None]
        if not usable:
            return Answer(problem=_UNSEALABLE)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._request(url, event_id, payload.encode(), usable, began_at)
        except TimeoutError:
            problem = f"no answer within {self._timeout_s:g} s"
        except Exception as error:  # Whatever an endpoint does is its delivery's problem.
            problem = f"{_problem_of(error)}"[:_MAX_PROBLEM]
        return Answer(problem=problem, duration_ms=_elapsed_ms(began_at))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _request(
        self, url: str, event_id: str, body: bytes, secrets: Sequence[bytes], began_at: float
    ) -> Answer:
        self._check_literal(url)
        headers = signed_headers(
            secrets, message_id=event_id, timestamp=int(self._now()), body=body
        ) | {"Content-Type": "application/json", "User-Agent": f"Botpool/{__version__}"}
        async with self._opened().post(
            url, data=body, headers=headers, allow_redirects=False
        ) as response:
            text = await _start_of(response)
            answer = Answer(
                status=response.status,
                body=text,
                retry_after_s=retry_after(
                    response.headers.get("Retry-After"), datetime.fromtimestamp(self._now(), UTC)
                ),
                problem=_status_problem(response.status),
                duration_ms=_elapsed_ms(began_at),
            )
            response.close()  # Unless all of the answer was read, the connection is of no use.
            return answer

    def _check_literal(self, url: str) -> None:
        """Check an IP address in the URL, for which the resolver is not asked."""
        from botpool.engine.webhooks.addresses import check_address

        host = urlsplit(url).hostname or ""
        try:
            ip_address(host)
        except ValueError:
            return
        check_address(host, allow_private=self._allow_private)

    def _opened(self) -> "ClientSession":
        """Open the session at the first request: installations without webhooks load no client."""
        if self._session is None:
            from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

            from botpool.engine.webhooks.addresses import CheckedResolver

            resolver = None if self._resolver is None else self._resolver()
            self._session = ClientSession(
                connector=TCPConnector(
                    resolver=CheckedResolver(resolver, allow_private=self._allow_private),
                    use_dns_cache=False,
                    limit=MAX_CONNECTIONS,
                ),
                timeout=ClientTimeout(total=self._timeout_s),
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _start_of(response: "ClientResponse") -> str:
    """Read at most the first bytes of an answer, so that a long one costs nothing."""
    content = b""
    while len(content) < _MAX_ANSWER:
        part = await response.content.read(_MAX_ANSWER - len(content))
        if not part:
            break
        content += part
    return content.decode("utf-8", "replace").replace("\x00", "\ufffd")


def _status_problem(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}; redirects are not followed"
    return f"answered {status}"


def _problem_of(error: Exception) -> str:
    from botpool.engine.webhooks.addresses import AddressRefused

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _elapsed_ms(began_at: float) -> int:
    return round((loop_time() - began_at) * 1000)
