"""Wake-ups: tell the reconcilers of this replica and of the others that slots are due.

Inside the process, a wake-up is an event. For other replicas it is a NOTIFY, sent by a loop of its
own at most once per interval: NOTIFY takes a global lock at commit, so no hot transaction may send
it. A lost wake-up delays work until the next poll.
"""

import asyncio
import contextlib

import structlog

from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.runtime.handover_push import HandoverPush, channel_of
from botpool.engine.runtime.loop import Loop
from botpool.store.database import Database
from botpool.store.sessions import notify_replicas

_log = structlog.get_logger()
_COALESCE_S = 0.05
_SOON_S = 0.02
"""Short beside the start of a container, and long enough to cover several statements of a burst."""
_RECONNECT_S = 1.0
_PROBE_S = 20.0
"""How long the listening connection may be silent before the server must answer on it."""


class Wakeups:
    """Sends and receives wake-ups."""

    def __init__(
        self, database: Database, *, owner: str, handover_push: HandoverPush | None = None
    ) -> None:
        self.handover_push = handover_push or HandoverPush(database, owner=owner)
        """Receives notifications on the channel of this replica."""
        self.slots = asyncio.Event()
        """Set when the next step of a slot is due."""
        self.listening = False
        """Whether this replica receives wake-ups; if not, it only polls."""
        self._database = database
        self._owner = owner
        self._outgoing = asyncio.Event()
        self._due_soon: asyncio.TimerHandle | None = None
        self._sender = Loop("notify", self._notify, interval_s=3600, wake=self._outgoing)
        self._listener: asyncio.Task[None] | None = None

    def wake_reconcilers(self) -> None:
        """Wake all reconcilers."""
        self.slots.set()
        self._outgoing.set()

    def wake_reconcilers_soon(self) -> None:
        """Wake all reconcilers in a moment; one wake-up covers every call until then."""
        if self._due_soon is None:
            loop = asyncio.get_running_loop()
            self._due_soon = loop.call_later(_SOON_S, self._end_delay)

    def _end_delay(self) -> None:
        self._due_soon = None
        self.wake_reconcilers()

    def start(self) -> None:
        self._sender.start()
        self._listener = asyncio.create_task(self._listen(), name="listen")

    async def stop(self) -> None:
        if self._due_soon is not None:
            self._due_soon.cancel()
            self._due_soon = None
        await self._sender.stop()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _notify(self) -> None:
        await asyncio.sleep(_COALESCE_S)
        # One notification covers every wake-up of this interval.
        self._outgoing.clear()
        await notify_replicas(self._database, owner=self._owner)

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                await self._receive()
            self.listening = False
            await asyncio.sleep(_RECONNECT_S)

    async def _receive(self) -> None:
        """Set the event at each notification of another replica, until the connection fails."""
        channel = channel_of(self._owner)
        connection = await self._database.listener(channel)
        try:
            self.listening = True
            self.slots.set()  # A notification may have been missed before.
            while True:
                if not await _readable(connection.fileno(), within_s=_PROBE_S):
                    await self._database.listen(connection)
                async for notification in connection.notifies(timeout=0):
                    if notification.channel == channel:
                        self.handover_push.receive(notification.payload)
                    elif notification.payload != self._owner:
                        self.slots.set()
        except Exception as error:  # any failure of the connection: log it and reconnect
            _log.warning("listen.lost", problem=str(error).strip())
        finally:
            await connection.close()


async def _readable(descriptor: int, *, within_s: float) -> bool:
    """Wait until the socket is readable. psycopg's own wait wakes ten times a second."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        async with asyncio.timeout(within_s):
            await ready.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
    return True
