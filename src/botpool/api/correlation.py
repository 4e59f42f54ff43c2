"""The caller's correlation id, bound to the work that its request causes.

Whatever is logged while a request is served carries the id that came with it: an agent sends its
bot's. One that no caller of ours would send is ignored here; where it matters the route refuses it.
"""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from botpool.api.patterns import VISIBLE

HEADER = "X-Correlation-ID"
MAX_LENGTH = 128


def correlation_of(headers: Headers) -> str | None:
    sent = headers.get(HEADER)
    if sent is None or len(sent) > MAX_LENGTH or not re.fullmatch(VISIBLE, sent):
        return None
    return sent


class BoundCorrelation:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = correlation_of(Headers(scope=scope)) if scope["type"] == "http" else None
        if sent is None:
            await self._app(scope, receive, send)
            return
        with bound_contextvars(correlation_id=sent):
            await self._app(scope, receive, send)
