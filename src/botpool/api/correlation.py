"""Binds the caller's correlation id to the log lines of its request.

An invalid id is ignored here; routes that store the id reject it.
"""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from botpool.api.patterns import VISIBLE

HEADER = "X-Correlation-ID"
MAX_LENGTH = 128


def correlation_of(headers: Headers) -> str | None:
    """The correlation id in these headers, or None if it is absent or invalid."""
    sent = headers.get(HEADER)
    if sent is None or len(sent) > MAX_LENGTH or not re.fullmatch(VISIBLE, sent):
        return None
    return sent


class CorrelationMiddleware:
    """Adds the caller's correlation id to everything that is logged during its request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = correlation_of(Headers(scope=scope)) if scope["type"] == "http" else None
        if sent is None:
            await self._app(scope, receive, send)
            return
        with bound_contextvars(correlation_id=sent):
            await self._app(scope, receive, send)
