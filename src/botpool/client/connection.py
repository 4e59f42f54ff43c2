"""HTTP requests with retries, and the responses to them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import stamina

from botpool.client import errors
from botpool.client.records import read

T = TypeVar("T")
TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_BY_STATUS: Mapping[int, Callable[[int, str], errors.Refused]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A successful response, with its body as the server sent it."""

    url: str
    status: int
    content: bytes
    body: Mapping[str, Any]
    server_time: datetime
    """The server's clock, so that ages do not depend on the clock of this machine."""

    def parse_record(self, kind: type[T], part: str | None = None, **more: Any) -> T:
        """Read the record in a part of the body, or the body itself as a record."""
        with read_errors(self.url, f"HTTP {self.status}"):
            return read(kind, self.body if part is None else self.body[part], **more)

    def parse_records(self, kind: type[T], part: str) -> list[T]:
        """Read the list of records in a part of the body."""
        with read_errors(self.url, f"HTTP {self.status}"):
            return [read(kind, each) for each in self.body[part]]


class Connection:
    """A server, an API key and the HTTP client for them."""

    def __init__(
        self, url: str, key: str, *, attempts: int, transport: httpx.BaseTransport | None
    ) -> None:
        self.url = url.rstrip("/")
        self._attempts = attempts
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
            # A proxy from the environment cannot reach a server on this machine.
            trust_env=not is_local(self.url),
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    def request(
        self, method: str, path: str, *, repeatable: bool = True, **request: Any
    ) -> Response:
        """Send a request and return the successful response.

        A request that was not sent is retried. A request whose response was lost is retried only
        if it is `repeatable`: releasing a slot twice could hit its next bot.
        """
        retried = httpx.TransportError if repeatable else _NOT_SENT
        with self._transport_errors():
            for attempt in stamina.retry_context(
                on=retried, attempts=self._attempts, wait_initial=0.2, timeout=None
            ):
                with attempt:
                    response = self._http.request(method, path, **request)
        if not response.is_success:
            raise refusal(self.url, response)
        body = _parse_json(response)
        if body is None:
            raise errors.UnexpectedResponse(self.url, _description(response))
        return Response(
            url=self.url,
            status=response.status_code,
            content=response.content,
            body=body,
            server_time=_server_time_or_now(response),
        )

    @contextmanager
    def stream(
        self, path: str, *, read_timeout_s: float | None, **request: Any
    ) -> Iterator[httpx.Response]:
        """Send a request whose response is read in parts. It is not retried."""
        timeout = httpx.Timeout(TIMEOUT_S, connect=_CONNECT_TIMEOUT_S, read=read_timeout_s)
        with (
            self._transport_errors(),
            self._http.stream("GET", path, timeout=timeout, **request) as response,
        ):
            if not response.is_success:
                response.read()
                raise refusal(self.url, response)
            yield response

    @contextmanager
    def _transport_errors(self) -> Iterator[None]:
        """Raise the errors of httpx as the client's own."""
        try:
            yield
        except httpx.ConnectTimeout as error:
            problem = f"no connection within {_CONNECT_TIMEOUT_S:.0f} s"
            raise errors.Unreachable(self.url, problem) from error
        except _NOT_SENT as error:
            raise errors.Unreachable(self.url, _describe_cause(error)) from error
        except httpx.TimeoutException as error:
            problem = f"no response within {TIMEOUT_S:.0f} s"
            raise errors.ResponseLost(self.url, problem) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise errors.ResponseLost(self.url, _describe_cause(error)) from error


@contextmanager
def read_errors(url: str, source: str) -> Iterator[None]:
    """Raise `UnexpectedResponse` if a record cannot be read from this part of the response."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise errors.UnexpectedResponse(url, f"{source} without a valid {error}") from error


def is_local(url: str) -> bool:
    """Whether the URL names this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def refusal(url: str, response: httpx.Response) -> errors.ClientError:
    """The error for an unsuccessful response."""
    status, problem = response.status_code, _parse_json(response) or {}
    detail = problem.get("detail")
    if status in (429, 502, 503, 504):
        wait = response.headers.get("retry-after", "")
        text = str(detail or f"{url} answered {_description(response)}: Botpool is not available.")
        return errors.Unavailable(status, text, float(wait) if wait.isdigit() else 1.0)
    if not isinstance(detail, str):
        return errors.UnexpectedResponse(url, _description(response))
    if status in (400, 422):
        return errors.NotValid(status, detail, _invalid_fields(problem))
    return _BY_STATUS.get(status, errors.Refused)(status, detail)


def _invalid_fields(problem: Mapping[str, Any]) -> dict[str, str]:
    listed = problem.get("errors")
    return {
        str(each.get("field")): str(each.get("message"))
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict)
    }


def _description(response: httpx.Response) -> str:
    kind = response.headers.get("content-type", "no content type")
    return f"HTTP {response.status_code}, {kind}"


def _describe_cause(error: Exception) -> str:
    """The operating system's message, which httpx wraps in two exceptions, or the error's own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _parse_json(response: httpx.Response) -> dict[str, Any] | None:
    """The JSON object in a response, if there is one."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _server_time_or_now(response: httpx.Response) -> datetime:
    try:
        return parsedate_to_datetime(response.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return datetime.now(UTC)
