"""The clients: every call for users and operators, synchronous and asynchronous."""

import os
from typing import Self

import httpx

from botpool.client.administration import AdministrationCalls, AsyncAdministrationCalls
from botpool.client.bot_data import AsyncBotDataCalls, BotDataCalls
from botpool.client.bots import AsyncBotCalls, BotCalls
from botpool.client.changes import AsyncChangeCalls, ChangeCalls
from botpool.client.connection import AsyncConnection, BlockingConnection
from botpool.client.pools import AsyncPoolCalls, PoolCalls
from botpool.client.responses import Response
from botpool.client.rollouts import AsyncRolloutCalls, RolloutCalls
from botpool.client.slots import AsyncSlotCalls, SlotCalls
from botpool.client.synchronous import run
from botpool.client.webhooks import AsyncWebhookCalls, WebhookCalls

_ATTEMPTS = 4


class _AsyncCalls(
    AsyncBotCalls,
    AsyncBotDataCalls,
    AsyncSlotCalls,
    AsyncPoolCalls,
    AsyncRolloutCalls,
    AsyncWebhookCalls,
    AsyncAdministrationCalls,
    AsyncChangeCalls,
):
    """The calls of all subjects."""


class AsyncClient(_AsyncCalls):
    """A client for one server and one API key, for use in an event loop.

    Without arguments, the client reads BOTPOOL_URL and BOTPOOL_API_KEY from the environment.
    `attempts` is how often a call is sent while the connection fails.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        attempts: int = _ATTEMPTS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(AsyncConnection(*_address(url, key), attempts, transport))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close()

    @property
    def url(self) -> str:
        return self._connection.url


class Client(
    BotCalls,
    BotDataCalls,
    SlotCalls,
    PoolCalls,
    RolloutCalls,
    WebhookCalls,
    AdministrationCalls,
    ChangeCalls,
):
    """A client for one server and one API key. Use it from one thread at a time.

    Without arguments, the client reads BOTPOOL_URL and BOTPOOL_API_KEY from the environment.
    `attempts` is how often a call is sent while the connection fails.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        attempts: int = _ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = BlockingConnection(*_address(url, key), attempts, transport)
        self._calls = _AsyncCalls(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        run(self._connection.close())

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def response(self) -> Response:
        """The server's response to the last call that returned records."""
        if self._connection.last_response is None:
            raise ValueError("The client has sent no call yet.")
        return self._connection.last_response


def _address(url: str | None, key: str | None) -> tuple[str, str]:
    url = url or os.environ.get("BOTPOOL_URL", "http://127.0.0.1:8700")
    key = key or os.environ.get("BOTPOOL_API_KEY")
    if not key or not all("!" <= each <= "~" for each in key):
        raise ValueError("Give the API key, or set BOTPOOL_API_KEY: visible ASCII characters.")
    return url, key
