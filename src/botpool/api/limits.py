"""Limits for the size of request bodies, applied before anything reads them."""

import re

from fastapi import HTTPException, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botpool.api.meeboter.routes import TRPC_PATH, too_large_response
from botpool.api.problems import problem_response
from botpool.domain.bot_data import MAX_SCREENSHOT_BYTES

MAX_BODY_BYTES = 128 * 1024
"""Enough for a bot with `botData` of 64 KiB, and for every other request but events."""

MAX_EVENTS_BYTES = 1024 * 1024
_LARGER = (
    (re.compile(r"/v1/agent/bots/[0-9]+/events"), MAX_EVENTS_BYTES),
    (re.compile(r"(/v1/agent|/api)/bots/[0-9]+/screenshots"), MAX_SCREENSHOT_BYTES + 16 * 1024),
    (re.compile(r"/api/trpc/.*|/v1/agent/vexa/.*"), MAX_EVENTS_BYTES),
)
"""Paths whose bodies may be larger: 100 events of 8 KiB each, screenshots, batches of log lines."""

_HEADERS = {"Connection": "close"}


class BodyLimit:
    """Responds 413 when a request declares or sends a body above the limit of its path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = _limit_of(scope["path"])
        detail = f"A request to this path may have at most {limit} bytes."
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
            await _refusal_of(scope, detail)(scope, receive, send)
            return
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                # FastAPI passes only this exception on while it reads a body.
                raise HTTPException(413, detail, _HEADERS)
            return message

        await self._app(scope, receive_limited, send)


def _limit_of(path: str) -> int:
    return next((limit for pattern, limit in _LARGER if pattern.fullmatch(path)), MAX_BODY_BYTES)


def _refusal_of(scope: Scope, detail: str) -> Response:
    """Return the response in the form that the client of this path reads."""
    if scope["path"].startswith(TRPC_PATH):
        return too_large_response(detail)
    return problem_response(413, detail, headers=_HEADERS)
