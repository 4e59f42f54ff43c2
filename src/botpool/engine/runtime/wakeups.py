"""Telling the loops that there is work, here and in the other replicas.

Inside this process it is an event. To the others it is a NOTIFY, gathered and sent by a loop of its
own: a commit that notifies takes a lock that is global to the server, so no transaction of the hot
path does it. Losing either costs at most one poll.
"""

import asyncio
import contextlib

import structlog

from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.runtime.loop import Loop
from botpool.store.database import Database

_log = structlog.get_logger()
_GATHER_S = 0.05
_RECONNECT_S = 1.0


class Wakeups:
    def __init__(self, database: Database, *, owner: str) -> None:
        self.slots = asyncio.Event()
        """Some slot's next step is due."""
        self.listening = False
        """False: the others' work is found by polling only."""
        self._database = database
        self._owner = owner
        self._outgoing = asyncio.Event()
        self._sender = Loop("notify", self._send, interval_s=3600, wake=self._outgoing)
        self._listener: asyncio.Task[None] | None = None

    def slots_due(self) -> None:
        self.slots.set()
        self._outgoing.set()

    def start(self) -> None:
        self._sender.start()
        self._listener = asyncio.create_task(self._listen(), name="listen")

    async def stop(self) -> None:
        await self._sender.stop()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _send(self) -> None:
        await asyncio.sleep(_GATHER_S)
        # Whatever came while we gathered goes with this one.
        self._outgoing.clear()
        await self._database.fetch("notify_replicas", {"owner": self._owner})

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                await self._hear()
            self.listening = False
            await asyncio.sleep(_RECONNECT_S)

    async def _hear(self) -> None:
        connection = await self._database.listener()
        try:
            self.listening = True
            self.slots.set()  # Something may have been said while nobody listened.
            while True:
                await _readable(connection.fileno())
                async for notice in connection.notifies(timeout=0):
                    if notice.payload != self._owner:
                        self.slots.set()
        except Exception as error:  # whatever ends the connection: say so, poll, and try again
            _log.warning("listen.lost", problem=str(error).strip())
        finally:
            await connection.close()


async def _readable(descriptor: int) -> None:
    """Wait until there is something to read. psycopg's own wait wakes ten times a second."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
