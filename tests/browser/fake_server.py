"""The real page before an server Botpool, for what a real one shows only on a bad day.

Answers are what a test puts in, the stream is what it pushes. Times are the server's own.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from tests.browser.running_botpool import free_port

from botpool.dashboard import page
from tests.browser.running_botpool import free_port

ALIVE_S = 5


class FakeServer:
    """`answers` by path below /v1, or what makes one of a query; `refusals` by path too, or for
    every path under ''."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.refusals: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []
        """Method and path, with its query, of all requests below /v1."""
        self.bodies: list[Any] = []
        self.last_ids: list[str | None] = []
        """What each stream was asked to go on after."""
        self._streams: set[asyncio.Queue[str | None]] = set()
        self._pushed = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None)
        page.install(app)
        app.add_api_route("/v1/events", self._stream)
        methods = ["GET", "POST", "DELETE"]
        app.add_api_route("/v1/{path:path}", self._answer, methods=methods, response_model=None)
        return app

    def push(self, *changes: dict[str, Any], event: str = "change") -> None:
        """To all who follow the stream."""
        lines = []
        for change in changes:
            self._pushed += 1
            lines.append(f"id: {self._pushed}\nevent: {event}\ndata: {json.dumps(change)}\n\n")
        self._send("".join(lines))

    def cut(self) -> None:
        """End every stream, as a restart does."""
        self._send(None)

    def _send(self, text: str | None) -> None:
        assert self._loop is not None
        for stream in list(self._streams):
            self._loop.call_soon_threadsafe(stream.put_nowait, text)

    def await_streams(self, count: int) -> None:
        """Until so many streams were opened, or ten seconds have gone."""
        for _ in range(1000):
            if len(self.last_ids) >= count:
                return
            time.sleep(0.01)

    def count(self, request: str) -> int:
        return sum(asked.startswith(request) for asked in self.asked)

    async def _stream(self, request: Request) -> Response:
        if refused := self._refused("events"):
            return refused
        self._loop = asyncio.get_running_loop()
        self.last_ids.append(request.headers.get("last-event-id"))
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        stream: asyncio.Queue[str | None] = asyncio.Queue()
        self._streams.add(stream)
        try:
            yield f"retry: 1000\nid: {self._pushed}\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(stream.get(), ALIVE_S)
                except TimeoutError:
                    text = ": alive\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._streams.discard(stream)

    async def _answer(self, request: Request, path: str) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        self.asked.append(f"{request.method} {path}{query}")
        if content := await request.body():
            self.bodies.append(json.loads(content))
        if refused := self._refused(path):
            return refused
        if path == "session":
            return JSONResponse({"name": "a test", "scope": "admin"})
        answer = self.answers.get(f"{request.method} {path}", self.answers.get(path))
        if callable(answer):
            answer = answer(request.query_params)
        if answer is None:
            return _problem(404, f"There is no {path}.")
        if request.query_params.get("follow") == "true":
            return StreamingResponse(_followed(answer))
        return Response(answer) if isinstance(answer, str) else JSONResponse(answer)

    def _refused(self, path: str) -> Response | None:
        refusal = self.refusals.get(path) or self.refusals.get("")
        return _problem(*refusal) if refusal else None


async def _followed(output: str) -> AsyncIterator[str]:
    """The output of a bot that runs: so far, and then nothing for now."""
    yield output
    await asyncio.Event().wait()


def _problem(status: int, detail: str) -> Response:
    return JSONResponse({"status": status, "detail": detail}, status_code=status)


@contextmanager
def run_fake_server() -> Iterator[FakeServer]:
    """Served from a thread, since the test's own belongs to the browser."""
    server = FakeServer()
    port = free_port()
    server.url = f"http://127.0.0.1:{port}"
    config = uvicorn.Config(server.app(), port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield server
    finally:
        with contextlib.suppress(AssertionError):
            server.cut()
        server.should_exit = server.force_exit = True
        thread.join(10)
