"""Lets clients leave a server that is about to stop."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Draining:
    """From `begin` on, every response closes its connection.

    A client that keeps connections open then connects anew, to a server that its load balancer
    chooses, instead of sending a request into a connection that the stop closes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            # Also for a request that was in progress when the draining began.
            if self._has_begun and message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_and_close)
