"""Calls to the control plane: one connection each, closed afterwards.

A thousand agents that kept their connections would hold a thousand sockets of the control plane
for one short call every ten seconds each, and would meet every proxy's idle timeout. An agent has
two connections at most: a heartbeat and a report.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .errors import Misconfigured, Refused, Unavailable
from .response import Response, read_response

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

WAIT_AND_RETRY = frozenset({408, 425, 429})
LONGEST_RETRY_AFTER_S = 120.0


class Transport:
    """Sends requests, tells a refusal from an outage, and logs where an outage begins and ends."""

    def __init__(
        self, url: str, token: str, *, correlation_id: str | None, timeout_s: float
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Misconfigured("BOTPOOL_URL", f"is not an address: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured("BOTPOOL_URL", "must be http://host[:port] or https://host[:port]")
        if not (token.isascii() and token.isprintable()):
            raise Misconfigured("BOTPOOL_TOKEN", "has characters that no token has")
        self._host = parts.hostname
        self._port = port or (443 if parts.scheme == "https" else 80)
        self._host_header = parts.netloc.rpartition("@")[2]
        self._base_path = parts.path.rstrip("/")
        self._tls = _tls_context() if parts.scheme == "https" else None
        self._token = token
        self._timeout_s = timeout_s
        self._reachable = True
        self.correlation_id = correlation_id

    async def call(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        """The JSON object that the control plane answers; else `Refused` or `Unavailable`."""
        try:
            answer = _judge(await self._exchange(self._request(method, path, body)))
        except Unavailable as outage:
            self._note(outage)
            raise
        except Refused:
            self._note(None)
            raise
        self._note(None)
        return answer

    async def _exchange(self, request: bytes) -> Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._converse(request)
        except TimeoutError:
            raise Unavailable(f"nothing came within {self._timeout_s:g} s") from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Unavailable(str(error) or type(error).__name__) from error

    async def _converse(self, request: bytes) -> Response:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            writer.write(request)
            await writer.drain()
            return await read_response(reader)
        finally:
            writer.close()

    def _request(self, method: str, path: str, body: str | None) -> bytes:
        content = (body or "").encode()
        lines = [
            f"{method} {self._base_path}{path} HTTP/1.1",
            f"Host: {self._host_header}",
            f"Authorization: Bearer {self._token}",
            "Accept: application/json",
            "User-Agent: botpool-agent",
            "Connection: close",
        ]
        # The user chose the correlation id: one that could break out of its header stays behind.
        if (chosen := self.correlation_id) and chosen.isascii() and chosen.isprintable():
            lines.append(f"X-Correlation-ID: {chosen}")
        if method == "POST":
            lines.append(f"Content-Length: {len(content)}")
            if content:
                lines.append("Content-Type: application/json")
        return "\r\n".join([*lines, "", ""]).encode() + content

    def _note(self, outage: Unavailable | None) -> None:
        if outage and self._reachable:
            log.warning("%s (%s:%d). Trying on.", outage, self._host, self._port)
        elif not outage and not self._reachable:
            log.warning("The control plane answers again.")
        self._reachable = outage is None


def _tls_context() -> "ssl.SSLContext":
    import ssl  # here, because http must work with a Python that was built without it

    return ssl.create_default_context()


def _judge(response: Response) -> dict[str, Any]:
    answer = response.json_object()
    status = response.status
    if 200 <= status < 300:
        if answer is None:
            raise Unavailable("the answer is not a JSON object; is this Botpool's address?")
        return answer
    if status in WAIT_AND_RETRY or status >= 500:
        raise Unavailable(f"HTTP {status}", retry_after_s=_retry_after_s(response))
    # A proxy whose upstream is being redeployed says 404 in its own words (Traefik does). Only
    # the control plane's own 404 is evidence, and that is JSON.
    if status == 404 and not response.is_json:
        raise Unavailable("HTTP 404, not in Botpool's words; is this Botpool's address?")
    raise Refused(status, _detail(status, answer or {}, response))


def _detail(status: int, problem: dict[str, Any], response: Response) -> str:
    if told := problem.get("detail") or problem.get("title"):
        return str(told)
    match status:
        case 401 | 403:
            return "BOTPOOL_TOKEN is not accepted."
        case 404:
            return "BOTPOOL_CONTAINER_ID is not the container of BOTPOOL_TOKEN."
        case _ if 300 <= status < 400:
            target = response.headers.get("location", "another address")
            return f"BOTPOOL_URL redirects to {target}; set server.public_url to where it ends."
        case _:
            return "no reason was given."


def _retry_after_s(response: Response) -> float:
    """The wait that was asked for in seconds; a date is left to the backoff."""
    value = response.headers.get("retry-after", "")
    return min(float(value), LONGEST_RETRY_AFTER_S) if value.isdecimal() else 0.0
