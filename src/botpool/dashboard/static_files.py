"""Serves the dashboard's static files with a strict content security policy.

The policy forbids inline scripts and styles, other origins, frames, and text that becomes markup
(trusted types). Names of bots and meetings therefore cannot inject markup into the page.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response

_STATIC = Path(__file__).with_name("static")
_PAGES = {"index.html": "/", "docs.html": "/docs"}
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
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


def add_routes(app: FastAPI) -> None:
    """Add a route for each static file to the application. Reads the files once, at the start."""
    for file in _STATIC.rglob("*.*"):
        name = file.relative_to(_STATIC).as_posix()
        if name == "docs.html" and app.openapi_url is None:
            continue
        path = _PAGES.get(name, f"/{name}")
        app.add_api_route(
            path, _file_handler(file), methods=["GET", "HEAD"], include_in_schema=False
        )


def _file_handler(file: Path) -> Callable[[], Awaitable[Response]]:
    content = file.read_bytes()
    media_type = _MEDIA_TYPES[file.suffix]

    async def serve() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return serve
