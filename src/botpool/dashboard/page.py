"""Serves the page and its files, under a policy that lets nothing else run.

No inline script or style, no other origin, no frames, and no text turned into markup (trusted
types): what users name their bots and meetings can never become a part of the page.
"""

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response

_STATIC = files("botpool.dashboard") / "static"
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ROUTES = {
    "/": "index.html",
    "/dashboard.js": "dashboard.js",
    "/view.js": "view.js",
    "/wording.js": "wording.js",
    "/dashboard.css": "dashboard.css",
    "/favicon.svg": "favicon.svg",
}
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
_HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def install(app: FastAPI) -> None:
    """Add the page to an application. Its files are read once, so a missing one stops the start."""
    for path, name in _ROUTES.items():
        app.add_api_route(path, _serve(name), methods=["GET", "HEAD"], include_in_schema=False)


def _serve(name: str) -> Callable[[], Awaitable[Response]]:
    file = _STATIC / name
    content = file.read_bytes()
    media_type = _MEDIA_TYPES["." + name.rpartition(".")[2]]

    async def serve() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return serve
