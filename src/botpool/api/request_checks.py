"""Refuses ambiguous requests, and keeps responses of `/v1` out of caches."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botpool.api.problems import problem_response

_PRIVATE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_REFUSED = {"Connection": "close"}


class RequestChecks:
    """Responds 400 to a request whose host or path a proxy could read in another way.

    Every response of `/v1` gets `Cache-Control: no-store` and `X-Content-Type-Options: nosniff`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith("/v1/"):
            send = _marked_private(send)
        if (problem := _problem_of(scope)) is not None:
            await problem_response(400, problem, headers=_REFUSED)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _problem_of(scope: Scope) -> str | None:
    hosts = sum(1 for name, _ in scope["headers"] if name == b"host")
    if hosts != 1:
        return f"A request needs exactly one Host header; this one has {hosts}."
    # The path is decoded already; an encoded slash would look like a separator.
    path = scope.get("raw_path") or b""
    if b"%" in path and (b"%2f" in (lower := path.lower()) or b"%5c" in lower):
        return "The path contains an encoded slash (%2F) or backslash (%5C)."
    return None


def _marked_private(send: Send) -> Send:
    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.setdefault("headers", [])
            present = {name for name, _ in headers}
            headers.extend(each for each in _PRIVATE_HEADERS if each[0] not in present)
        await send(message)

    return send_marked
