"""HTTP calls to the control plane, each on its own short connection.

Kept connections of a thousand agents would hold a thousand sockets of the control plane for one
short call every ten seconds each, and would run into the idle timeouts of proxies. An agent has at
most two connections: a heartbeat and a report.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .errors import Limited, Misconfigured, Refused, Unavailable
from .response import Response, read_response

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

WAIT_AND_RETRY = frozenset({408, 425})
LONGEST_RETRY_AFTER_S = 120.0


class Transport:
    """Sends requests, separates refusals from outages, and logs the start and end of an outage."""

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

    async def call(self, method: str, path: str, body: str | bytes | None = None) -> dict[str, Any]:
        """Send a request with JSON text or bytes and return the JSON object of the answer.

        Raises `Refused` or `Unavailable`.
        """
        try:
            answer = _interpret(await self._send(self._request(method, path, body)))
        except (Limited, Refused):
            self._log_reachability(None)
            raise
        except Unavailable as outage:
            self._log_reachability(outage)
            raise
        self._log_reachability(None)
        return answer

    async def _send(self, request: bytes) -> Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send_and_read(request)
        except TimeoutError:
            raise Unavailable(f"no answer within {self._timeout_s:g} s") from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Unavailable(str(error) or type(error).__name__) from error

    async def _send_and_read(self, request: bytes) -> Response:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            writer.write(request)
            await writer.drain()
            return await read_response(reader)
        finally:
            writer.close()

    def _request(self, method: str, path: str, body: str | bytes | None) -> bytes:
        content = body if isinstance(body, bytes) else (body or "").encode()
        lines = [
            f"{method} {self._base_path}{path} HTTP/1.1",
            f"Host: {self._host_header}",
            f"Authorization: Bearer {self._token}",
            "Accept: application/json",
            "User-Agent: botpool-agent",
            "Connection: close",
        ]
        # The correlation id comes from a user: omit one that could break out of its header.
        if (chosen := self.correlation_id) and chosen.isascii() and chosen.isprintable():
            lines.append(f"X-Correlation-ID: {chosen}")
        if method == "POST":
            lines.append(f"Content-Length: {len(content)}")
            if content:
                kind = "octet-stream" if isinstance(body, bytes) else "json"
                lines.append(f"Content-Type: application/{kind}")
        return "\r\n".join([*lines, "", ""]).encode() + content

    def _log_reachability(self, outage: Unavailable | None) -> None:
        if outage and self._reachable:
            log.warning("%s (%s:%d). Retrying.", outage, self._host, self._port)
        elif not outage and not self._reachable:
            log.warning("The control plane answers again.")
        self._reachable = outage is None


def _tls_context() -> "ssl.SSLContext":
    import ssl  # Imported here, because http must work with a Python built without ssl.

    return ssl.create_default_context()


def _interpret(response: Response) -> dict[str, Any]:
    answer = response.json_object()
    status = response.status
    if 200 <= status < 300:
        if answer is None:
            raise Unavailable("the answer is not a JSON object; is this Botpool's address?")
        return answer
    if status == 429:
        detail = _detail(status, answer or {}, response)
        raise Limited(detail, retry_after_s=_retry_after_s(response))
    if status in WAIT_AND_RETRY or status >= 500:
        raise Unavailable(f"HTTP {status}", retry_after_s=_retry_after_s(response))
    # A proxy such as Traefik answers 404 while its upstream is being redeployed. Only the
    # control plane's own 404, which is JSON, is evidence.
    if status == 404 and not response.is_json:
        raise Unavailable("HTTP 404 from something other than Botpool; is this Botpool's address?")
    raise Refused(status, _detail(status, answer or {}, response))


def _detail(status: int, problem: dict[str, Any], response: Response) -> str:
    if detail := problem.get("detail") or problem.get("title"):
        return str(detail)
    match status:
        case 401 | 403:
            return "BOTPOOL_TOKEN is not accepted."
        case 404:
            return "BOTPOOL_CONTAINER_ID is not the container of BOTPOOL_TOKEN."
        case _ if 300 <= status < 400:
            target = response.headers.get("location", "another address")
            return f"BOTPOOL_URL redirects to {target}; set server.public_url to that address."
        case _:
            return "no reason was given."


def _retry_after_s(response: Response) -> float:
    """Return the Retry-After in seconds; a date is left to the backoff."""
    value = response.headers.get("retry-after", "")
    return min(float(value), LONGEST_RETRY_AFTER_S) if value.isdecimal() else 0.0
