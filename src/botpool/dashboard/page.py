"""Serves the page and its two files, under a policy that lets nothing else run."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response

_STATIC = files("botpool.dashboard") / "static"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def install(app: FastAPI) -> None:
    for path, (name, media_type) in _FILES.items():
        app.add_api_route(path, _serve(name, media_type), include_in_schema=False)


def _serve(name: str, media_type: str):  # type: ignore[no-untyped-def]
    content = (_STATIC / name).read_bytes()

    async def serve() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return serve
