"""What a server's answer means: the thing that was asked for, or an error that can be said."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, NoReturn, TypeVar

import httpx

from botpool.cli import shapes
from botpool.cli.connection import Target
from botpool.cli.errors import KeyRefused, NotBotpool, Refused, RequestNotValid, Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """What the server said: its own bytes, for `--json`, and what they mean."""

    content: bytes
    body: T
    at: datetime
    """The server's clock, by which ages are told."""
    status: int


def read(response: httpx.Response, shape: type[T], target: Target) -> Answer[T]:
    if not response.is_success:
        refuse(response, target)
    body = _json(response)
    if (lacking := shapes.missing_part(body, shape)) is not None:
        raise NotBotpool(target.url, f"HTTP {response.status_code} without {lacking}")
    return Answer(
        content=response.content,
        body=body,  # type: ignore[arg-type] # its shape was checked above
        at=_clock(response),
        status=response.status_code,
    )


def refuse(response: httpx.Response, target: Target) -> NoReturn:
    """Raise what the server states as its problem, as the error that says it best."""
    problem = _json(response)
    status = response.status_code
    if not isinstance(problem, dict) or not isinstance(detail := problem.get("detail"), str):
        kind = response.headers.get("content-type", "no content type")
        raise NotBotpool(target.url, f"HTTP {status}, {kind}")
    if status == 401:
        raise KeyRefused(target.url, target.key_from)
    if status in (400, 422):
        raise RequestNotValid(status, detail, _fields(problem))
    if status == 503:
        wait = response.headers.get("retry-after", "")
        if wait.isdigit() and f"{wait} s" not in detail:
            detail = f"{detail} Try again in {wait} s."
        raise Unavailable(status, detail)
    raise Refused(status, detail)


def _fields(problem: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = problem.get("errors")
    listed = found if isinstance(found, list) else []
    return tuple(
        (str(each.get("field")), str(each.get("message")))
        for each in listed
        if isinstance(each, dict)
    )


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _clock(response: httpx.Response) -> datetime:
    """The server's time, so that the ages shown do not depend on two clocks being equal."""
    try:
        return parsedate_to_datetime(response.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return datetime.now(UTC)
