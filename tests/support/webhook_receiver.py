"""A receiver of webhooks for tests: a small HTTP server whose answers a test decides."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def bot_id(self) -> int:
        bot_id: int = self.event["data"]["botId"]
        return bot_id


@dataclass(kw_only=True)
class Receiver:
    """Keeps all requests. `answer` returns a status, or a status with headers."""

    port: int = 0
    answer: Callable[[Received], int | tuple[int, Mapping[str, str]]] = lambda _: 204
    delay_s: float = 0.0
    requests: list[Received] = field(default_factory=list)
    accepted: list[Received] = field(default_factory=list)
    """Those with an answer of 2xx."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def handle(self, request: web.Request) -> web.Response:
        received = Received(
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items()},
            body=await request.read(),
        )
        self.requests.append(received)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        answered = self.answer(received)
        status, headers = answered if isinstance(answered, tuple) else (answered, {})
        if 200 <= status < 300:
            self.accepted.append(received)
        return web.Response(
            status=status, headers=dict(headers), text="" if status == 204 else "answer"
        )


@asynccontextmanager
async def receiving(**values: Any) -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of the loopback address."""
    receiver = Receiver(**values)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", receiver.port)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()
