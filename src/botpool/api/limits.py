"""A bound on what a request may send, kept before anything reads it."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botpool.api.problems import problem

MAX_BODY_BYTES = 1024 * 1024

_DETAIL = f"A request may have at most {MAX_BODY_BYTES} bytes."
_HEADERS = {"Connection": "close"}


class BodyLimit:
    """Answers 413 when a body is declared, or turns out, to be larger than the bound."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            await problem(413, _DETAIL, headers=_HEADERS)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > MAX_BODY_BYTES:
                # The one exception that the framework lets through where it reads a body.
                raise HTTPException(413, _DETAIL, _HEADERS)
            return message

        await self._app(scope, counted, send)
