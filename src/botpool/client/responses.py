"""The responses of the server, and the errors for those that refuse a request."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from botpool.client import errors
from botpool.client.records import read

T = TypeVar("T")
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


@contextmanager
def read_errors(url: str, source: str) -> Iterator[None]:
    """Raise `UnexpectedResponse` if a record cannot be read from this part of the response."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise errors.UnexpectedResponse(url, f"{source} without a valid {error}") from error


def successful(url: str, response: httpx.Response) -> Response:
    """Return the JSON object of a response, or raise the error that an unsuccessful one means."""
    if not response.is_success:
        raise refusal(url, response)
    body = _parse_json(response)
    if body is None:
        raise errors.UnexpectedResponse(url, _description(response))
    return Response(
        url=url,
        status=response.status_code,
        content=response.content,
        body=body,
        server_time=_server_time_or_now(response),
    )


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
