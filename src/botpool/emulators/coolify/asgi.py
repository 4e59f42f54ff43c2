"""The emulator as an ASGI application.

How an answer breaks on the wire is the server's affair: `EmulatorServer` hands down the means in
the scope. Under another server, a broken answer is an exception.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

from botpool.emulators.coolify.api import Api
from botpool.emulators.coolify.clock import Clock
from botpool.emulators.coolify.http import Answer, Request, Wire
from botpool.emulators.coolify.world import World

CONNECTION = "botpool.emulator.connection"
"""The extension in the scope: `{"break": Breakable}`."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Breakable(Protocol):
    def reset(self) -> None:
        """Break it at once; what was written may be lost."""
        ...

    def close(self) -> None:
        """End it after what was written."""
        ...


def create_app(world: World, clock: Clock) -> Application:
    api = Api(world, clock)

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server has websockets and lifespan switched off"
        reply = api.reply(await _read(scope, receive))
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.wire is Wire.WHOLE:
            await _start(send, reply.answer)
            await send({"type": "http.response.body", "body": reply.answer.body})
            return
        connection: Breakable | None = scope.get("extensions", {}).get(CONNECTION, {}).get("break")
        if connection is None:
            raise ConnectionAbortedError(f"an emulated fault of the wire: {reply.wire.name}")
        if reply.wire is Wire.HALF:
            half = reply.answer.body[: len(reply.answer.body) // 2]
            await _start(send, reply.answer)
            await send({"type": "http.response.body", "body": half, "more_body": True})
            connection.close()
        else:
            connection.reset()
        # To return before the connection is lost would be taken for a bug of ours.
        while (await receive())["type"] != "http.disconnect":
            pass

    return app


async def _read(scope: MutableMapping[str, Any], receive: Receive) -> Request:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    query = scope.get("query_string", b"").decode("latin-1")
    return Request(
        method=scope["method"],
        path=scope["path"],
        query=dict(parse_qsl(query, keep_blank_values=True)),
        headers={
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        },
        body=body,
    )


async def _start(send: Send, answer: Answer) -> None:
    headers = {
        **answer.headers,
        "Content-Type": answer.media_type,
        "Content-Length": str(len(answer.body)),
    }
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
    )
