"""What the calls of every subject share: requests, pages and polling.

Each subject (bots, slots, pools, …) has a module with two classes. The class `Async…Calls` has the
calls, as coroutines; the other names the synchronous form of each. `client.py` joins the classes.
"""

import json
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from botpool.client import errors
from botpool.client.connection import Connection
from botpool.client.records import Page
from botpool.client.responses import Response

T = TypeVar("T")
PAGE = 200
"""How many records a page has."""
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 1.0
_LONGEST_OUTAGE_S = 60.0


class Calls:
    """Sends requests over a connection and reads records from the responses."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def _request(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, **request: Any
    ) -> Response:
        """Send a request, with a JSON body if there is one."""
        if body is not None:
            request["content"] = _to_json(body)
            request["headers"] = {"Content-Type": "application/json", **request.get("headers", {})}
        return await self._connection.request(method, path, **request)

    async def _record(
        self, kind: type[T], method: str, path: str, part: str | None = None, **request: Any
    ) -> T:
        """Send a request and return the record in a part of the response."""
        return (await self._request(method, path, **request)).parse_record(kind, part)

    async def _list(self, kind: type[T], path: str, part: str, **params: Any) -> list[T]:
        """Get the records in a part of the response. Parameters that are None are not sent."""
        response = await self._request("GET", path, params=without_none(**params))
        return response.parse_records(kind, part)

    async def _page(self, kind: type[T], path: str, part: str, **params: Any) -> Page[T]:
        """Get one page of records. Parameters that are None are not sent."""
        response = await self._request("GET", path, params=without_none(**params))
        items = response.parse_records(kind, part)
        return Page(items=items, next_cursor=response.body.get("nextCursor"))

    async def _pages(
        self, kind: type[T], path: str, part: str, **params: Any
    ) -> AsyncGenerator[T, None]:
        """Yield the records of all pages. A page is requested when its first record is needed."""
        cursor = None
        while True:
            page = await self._page(kind, path, part, **params, limit=PAGE, cursor=cursor)
            for item in page.items:
                yield item
            if (cursor := page.next_cursor) is None:
                return

    async def _poll(
        self,
        result: T,
        call: Callable[[], Awaitable[T]],
        is_last: Callable[[T], bool],
        deadline: float = math.inf,
    ) -> T:
        """Repeat a call until its result is the last. An outage of a minute is tolerated."""
        answered_at = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        while not is_last(result):
            await self._connection.sleep(max(min(pause_s, deadline - time.monotonic()), 0))
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            try:
                result, answered_at = await call(), time.monotonic()
            except (errors.Unreachable, errors.Unavailable):
                if time.monotonic() - answered_at > _LONGEST_OUTAGE_S:
                    raise
        return result


def without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def moment(at: datetime | None) -> str | None:
    """Return a time with its offset; the server refuses a time without one."""
    if at is not None and at.tzinfo is None:
        raise ValueError("the time needs a zone, such as datetime.now(UTC) + timedelta(hours=1)")
    return None if at is None else at.isoformat()


def _to_json(body: Mapping[str, Any]) -> bytes:
    """Encode as UTF-8, the shortest form. A lone surrogate, which the server refuses, as ASCII."""
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body).encode("ascii")
