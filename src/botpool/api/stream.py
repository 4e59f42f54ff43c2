"""The stream of changes as Server-Sent Events.

Every event carries its place in the stream as its id, so that whoever was cut off goes on where it
was, at any replica. A comment every few seconds tells that the silence is real. While the stream is
open its key is asked for again and again: a revoked one ends it, with a word about why.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from botpool.api import schemas
from botpool.api.auth import Operator, Service, session_end
from botpool.api.problems import described
from botpool.domain.cursor import Cursor
from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.stream.subscriptions import Batch, News, Subscription

_ALIVE_S = 5.0
_RETRY_MS = 1000
_MAX_ID = 1024
_HEADERS = {
    "Cache-Control": "no-store",
    # nginx would keep it all until its buffer is full.
    "X-Accel-Buffering": "no",
}
_CONTENT: dict[str, Any] = {
    "text/event-stream": {
        "schema": {"type": "string"},
        "example": (
            "id: 7312-7318-40127\nevent: change\n"
            'data: {"at": "2026-01-05T10:00:00.120000Z", "kind": "slot.status", '
            '"platform": "google-meet", "botId": 7, "slotId": 3, '
            '"slotName": "pool-google-meet-003", "from": "deploying", "to": "busy", '
            '"reason": "seen running", "correlationId": "6f1c", "data": null}\n\n'
        ),
    }
}

routes = APIRouter(prefix="/v1", tags=["operators"])


@routes.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": _CONTENT}, **described(401, 403, 422, 503)},
)
async def stream_events(
    request: Request,
    replica: Service,
    key: Operator,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=_MAX_ID,
            description="The id of the last event that was read: the stream goes on after it.",
        ),
    ] = None,
) -> StreamingResponse:
    """Every change as it happens, as Server-Sent Events.

    `change` is a row of history. `reset`, with a `reason`: what follows does not continue what came
    before, so load the present state again. `denied`, with a `reason`: the key or the session is no
    longer valid, and the stream ends. Comments in between say that the stream is alive.
    """
    ends_at = session_end(request)

    async def may_go_on() -> bool:
        if ends_at is not None and ends_at < time.time():
            return False
        return await replica.api_keys.find_by_id(key.id) is not None

    subscription = await replica.changes.subscribe(last_event_id or None)
    return _EventStream(subscription, may_go_on)


class _EventStream(StreamingResponse):
    """Lets go of its subscription however it ends."""

    def __init__(
        self, subscription: Subscription, may_go_on: Callable[[], Awaitable[bool]]
    ) -> None:
        self._subscription = subscription
        super().__init__(
            _events(subscription, may_go_on), media_type="text/event-stream", headers=_HEADERS
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._subscription.close()


async def _events(
    subscription: Subscription, may_go_on: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    # With a place at once: also a stream that ends before its first event can be gone on with.
    yield f"retry: {_RETRY_MS}\n{_place(subscription)}\n".encode()
    asked_at = time.monotonic()
    while True:
        news = await subscription.take(within_s=_ALIVE_S)
        if news is not None:
            yield _wire(news)
        elif subscription.over:
            return
        if time.monotonic() - asked_at >= _ALIVE_S:
            asked_at = time.monotonic()
            try:
                if not await may_go_on():
                    yield _event("denied", schemas.Notice(reason="The key is no longer valid."))
                    return
            except DatabaseUnavailable:
                return
        if news is None:
            yield f": alive\n{_place(subscription)}\n".encode()


def _place(subscription: Subscription) -> str:
    return f"id: {subscription.position}\n" if subscription.position else ""


@lru_cache(maxsize=8)
def _wire(news: News) -> bytes:
    """As it is sent. Streams share their batches, so each is written once for all of them."""
    if isinstance(news, Batch):
        return b"".join(
            _event("change", schemas.Change.model_validate(each), news.cursor(each))
            for each in news.changes
        )
    return _event("reset", schemas.Notice(reason=news.reason), news.cursor)


def _event(kind: str, body: BaseModel, cursor: Cursor | None = None) -> bytes:
    place = f"id: {cursor}\n" if cursor is not None else ""
    # JSON without line breaks: a line break would end the data.
    return f"{place}event: {kind}\ndata: {body.model_dump_json(by_alias=True)}\n\n".encode()
