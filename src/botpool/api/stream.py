"""The route for the stream of changes (Server-Sent Events).

Each event's id is a cursor, with which a client resumes at any replica. A comment every few seconds
shows that the connection works. The stream checks its key regularly and ends when the key is
revoked.
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
from botpool.api.access import OWN_BOTS
from botpool.api.auth import Service, User, validity_check
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.problems import error_responses
from botpool.domain.cursor import Cursor
from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.stream.subscriptions import Batch, StreamItem, Subscription

_KEEP_ALIVE_S = 5.0
_RETRY_MS = 1000
_MAX_ID = 1024
_HEADERS = {
    "Cache-Control": "no-store",
    # Without this, nginx buffers the stream.
    "X-Accel-Buffering": "no",
}
_CONTENT: dict[str, Any] = {
    "text/event-stream": {
        "schema": {"type": "string"},
        "example": (
            "id: 59270400000000-7312-7318-40127\nevent: change\n"
            'data: {"at": "2026-01-05T10:00:00.120000Z", "kind": "slot.status", '
            '"platform": "google-meet", "botId": 7, "slotId": 3, '
            '"slotName": "pool-google-meet-003", "from": "deploying", "to": "busy", '
            '"reason": "observed running", "correlationId": "6f1c", "data": null}\n\n'
        ),
    }
}

routes = APIRouter(prefix="/v1", tags=["users"], route_class=AuthenticatedRoute)


@routes.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": _CONTENT}, **error_responses(401, 403, 422, 503)},
    openapi_extra=OWN_BOTS,
)
async def stream_events(
    request: Request,
    replica: Service,
    caller: User,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=_MAX_ID,
            description="The id of the last event received; the stream continues after it.",
        ),
    ] = None,
) -> StreamingResponse:
    """Stream every change as Server-Sent Events; for keys of scope `user`, of their tenant's bots.

    A `change` event is a row of history. A `reset` event means that changes are missing: load the
    current state again. A `denied` event means that the key or session is no longer valid; the
    stream then ends. `reset` and `denied` carry a `reason`. Comments keep the connection alive.
    """
    subscription = await replica.changes.subscribe(
        last_event_id or None, tenant_id=caller.visible_tenant
    )
    return _EventStream(subscription, validity_check(request, caller))


class _EventStream(StreamingResponse):
    """Closes the subscription when the response ends."""

    def __init__(
        self, subscription: Subscription, is_authorized: Callable[[], Awaitable[bool]]
    ) -> None:
        self._subscription = subscription
        super().__init__(
            _stream_events(subscription, is_authorized),
            media_type="text/event-stream",
            headers=_HEADERS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._subscription.close()


async def _stream_events(
    subscription: Subscription, is_authorized: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    # The first line has a cursor, so that a client can resume a stream without events.
    yield f"retry: {_RETRY_MS}\n{_id_line(subscription)}\n".encode()
    checked_at = time.monotonic()
    while True:
        item = await subscription.take(within_s=_KEEP_ALIVE_S)
        if item is not None:
            yield _serialize(item)
        elif subscription.over:
            return
        if time.monotonic() - checked_at >= _KEEP_ALIVE_S:
            checked_at = time.monotonic()
            try:
                if not await is_authorized():
                    yield _encode_event(
                        "denied", schemas.Notice(reason="The key is no longer valid.")
                    )
                    return
            except DatabaseUnavailable:
                return
        if item is None:
            yield f": alive\n{_id_line(subscription)}\n".encode()


def _id_line(subscription: Subscription) -> str:
    return f"id: {subscription.position}\n" if subscription.position else ""


@lru_cache(maxsize=64)
def _serialize(item: StreamItem) -> bytes:
    """Serialize events. Streams share batches, so the cache serializes each batch once."""
    if isinstance(item, Batch):
        return b"".join(
            _encode_event("change", schemas.Change.model_validate(each), item.cursor(each))
            for each in item.changes
        )
    return _encode_event("reset", schemas.Notice(reason=item.reason), item.cursor)


def _encode_event(kind: str, body: BaseModel, cursor: Cursor | None = None) -> bytes:
    id_line = f"id: {cursor}\n" if cursor is not None else ""
    # The JSON has no line breaks; a line break would end the data field.
    return f"{id_line}event: {kind}\ndata: {body.model_dump_json(by_alias=True)}\n\n".encode()
