"""A limit for the size of request bodies, applied before anything reads them."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botpool.api.problems import problem_response

MAX_BODY_BYTES = 1024 * 1024

_DETAIL = f"A request may have at most {MAX_BODY_BYTES} bytes."
_HEADERS = {"Connection": "close"}


class BodyLimit:
    """Responds 413 when a request declares or sends a body above the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            await problem_response(413, _DETAIL, headers=_HEADERS)(scope, receive, send)
            return
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                # FastAPI passes only this exception on while it reads a body.
                raise HTTPException(413, _DETAIL, _HEADERS)
            return message

        await self._app(scope, receive_limited, send)
