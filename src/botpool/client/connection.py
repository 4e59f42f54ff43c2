"""Requests and answers: tried again while the connection fails, judged when they come."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import stamina

from botpool.client import errors

TIMEOUT = httpx.Timeout(30.0, connect=5.0)


def silent_for(seconds: float | None) -> httpx.Timeout:
    """The same, for an answer that may pause so long between its parts."""
    return httpx.Timeout(30.0, connect=5.0, read=seconds)


_ATTEMPTS = 4
_KINDS: Mapping[int, Callable[[int, str], errors.Refused]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
}


class Connection:
    def __init__(self, url: str, key: str, transport: httpx.BaseTransport | None) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=TIMEOUT,
            # A proxy for the outside world must not stand between this machine and itself.
            trust_env=not _is_local(self.url),
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, part: str, **request: Any) -> dict[str, Any]:
        """The answer, which has that part. A lost call is sent again: none of ours does harm."""
        try:
            for attempt in stamina.retry_context(
                on=httpx.TransportError, attempts=_ATTEMPTS, wait_initial=0.2, timeout=None
            ):
                with attempt:
                    response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise errors.Unreachable(self.url, _reason(error)) from error
        if not response.is_success:
            raise refusal(response)
        body = _json(response)
        if part not in body:
            raise errors.Refused(response.status_code, f"{self.url} is not Botpool.")
        return body

    @contextmanager
    def stream(self, path: str, **request: Any) -> Iterator[httpx.Response]:
        """An answer that comes in parts. Not tried again: the caller knows where it was."""
        try:
            with self._http.stream("GET", path, **request) as response:
                if not response.is_success:
                    response.read()
                    raise refusal(response)
                yield response
        except (httpx.TransportError, httpx.StreamError) as error:
            raise errors.Unreachable(self.url, _reason(error)) from error


def _reason(error: Exception) -> str:
    """The system's own word where there is one: httpx wraps it twice."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def refusal(response: httpx.Response) -> errors.Refused:
    """What the server states as its problem, as the exception that says it best."""
    status, problem = response.status_code, _json(response)
    detail = str(problem.get("detail") or f"HTTP {status} of something that is not Botpool.")
    if status in (400, 422):
        listed = problem.get("errors") or []
        return errors.NotValid(status, detail, {each["field"]: each["message"] for each in listed})
    if status == 503:
        wait = response.headers.get("retry-after", "")
        return errors.Unavailable(status, detail, float(wait) if wait.isdigit() else 1.0)
    return _KINDS.get(status, errors.Refused)(status, detail)


def _json(response: httpx.Response) -> dict[str, Any]:
    """The object in an answer; nothing where another than Botpool has answered."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
