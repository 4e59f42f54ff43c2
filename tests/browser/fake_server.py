"""Serves the real dashboard with API responses and stream events that a test chooses."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from botpool.dashboard import static_files
from tests.support.ports import free_port

KEEP_ALIVE_S = 5
WAIT_S = 60.0


class FakeServer:
    """`responses` by path below /v1, each a body or a function of the query; `errors` by path.

    The error for the path "" applies to every path.
    """

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.errors: dict[str, tuple[int, str]] = {}
        self.scope = "admin"
        """The scope of the key that signed in."""
        self.requests: list[str] = []
        """Method, path and query of all requests below /v1, except for the stream."""
        self.last_event_ids: list[str | None] = []
        """The Last-Event-ID of each stream request."""
        self._streams: set[asyncio.Queue[str | None]] = set()
        self._pushed = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None)
        static_files.add_routes(app)
        app.add_api_route("/v1/events", self._stream)
        methods = ["GET", "POST", "DELETE"]
        app.add_api_route("/v1/{path:path}", self._respond, methods=methods, response_model=None)
        return app

    def push(self, *changes: dict[str, Any], event: str = "change") -> None:
        """Send events to all open streams."""
        lines = []
        for change in changes:
            self._pushed += 1
            lines.append(f"id: {self._pushed}\nevent: {event}\ndata: {json.dumps(change)}\n\n")
        self._send("".join(lines))

    def close_streams(self) -> None:
        """End every stream, as a restart does."""
        self._send(None)

    def _send(self, text: str | None) -> None:
        assert self._loop is not None
        for stream in list(self._streams):
            self._loop.call_soon_threadsafe(stream.put_nowait, text)

    def wait_for_stream_request(self, number: int) -> None:
        """Wait until this many streams have been requested."""
        _wait_until(lambda: len(self.last_event_ids) >= number)

    def wait_for_no_streams(self) -> None:
        """Wait until the browser has closed every stream."""
        _wait_until(lambda: not self._streams)

    def count(self, request: str) -> int:
        """The number of requests that begin with this method and path."""
        return sum(each.startswith(request) for each in self.requests)

    async def _stream(self, request: Request) -> Response:
        if error := self._error("events"):
            return error
        self._loop = asyncio.get_running_loop()
        self.last_event_ids.append(request.headers.get("last-event-id"))
        # Registered before the response begins: the page may be live before the first read.
        stream: asyncio.Queue[str | None] = asyncio.Queue()
        self._streams.add(stream)
        return StreamingResponse(self._events(stream), media_type="text/event-stream")

    async def _events(self, stream: asyncio.Queue[str | None]) -> AsyncIterator[str]:
        try:
            yield f"retry: 1000\nid: {self._pushed}\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(stream.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    text = ": alive\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._streams.discard(stream)

    async def _respond(self, request: Request, path: str) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        self.requests.append(f"{request.method} {path}{query}")
        if error := self._error(path):
            return error
        if path == "session":
            session = {"name": "a test", "scope": self.scope, "tenant": "default"}
            return JSONResponse(session)
        body = self.responses.get(f"{request.method} {path}", self.responses.get(path))
        if body is None and path.endswith(("/screenshots", "/commands")):
            body = {path.rpartition("/")[2]: []}
        if callable(body):
            body = body(request.query_params)
        if body is None:
            return _problem(404, f"There is no {path}.")
        if request.query_params.get("follow") == "true":
            return StreamingResponse(_follow(body))
        if isinstance(body, bytes):
            return Response(body, media_type="image/png")
        return Response(body) if isinstance(body, str) else JSONResponse(body)

    def _error(self, path: str) -> Response | None:
        error = self.errors.get(path) or self.errors.get("")
        return _problem(*error) if error else None


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not reached within {WAIT_S:g} s"
        time.sleep(0.01)


async def _follow(output: str) -> AsyncIterator[str]:
    """The output of a running container: the past output, then silence."""
    yield output
    await asyncio.Event().wait()


def _problem(status: int, detail: str) -> Response:
    return JSONResponse({"status": status, "detail": detail}, status_code=status)


@contextmanager
def run_fake_server() -> Iterator[FakeServer]:
    """Serve from a thread, because Playwright occupies the main thread."""
    fake = FakeServer()
    port = free_port()
    fake.url = f"http://127.0.0.1:{port}"
    config = uvicorn.Config(fake.app(), port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield fake
    finally:
        with contextlib.suppress(AssertionError):
            fake.close_streams()
        server.should_exit = server.force_exit = True
        thread.join(10)
