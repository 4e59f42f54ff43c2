"""What the control plane wants of the bot: to leave the meeting, or to exit at once."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

LeaveCallback = Callable[[], Awaitable[object] | object]


class Orders:
    """Two events that only ever turn on. To exit is also to leave, so a bot may watch one."""

    def __init__(self) -> None:
        self.leave_requested = asyncio.Event()
        self.exit_requested = asyncio.Event()
        self._callbacks: list[LeaveCallback] = []
        self._under_way: set[asyncio.Future[object]] = set()

    def on_leave(self, callback: LeaveCallback) -> None:
        """Call back once; at once if leaving was requested before."""
        if self.leave_requested.is_set():
            self._run(callback)
        else:
            self._callbacks.append(callback)

    def leave(self) -> None:
        self.leave_requested.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._run(callback)

    def exit(self) -> None:
        self.exit_requested.set()
        self.leave()

    async def close(self) -> None:
        """Cancel the callbacks that still run."""
        for future in self._under_way:
            future.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _run(self, callback: LeaveCallback) -> None:
        try:
            result = callback()
        except Exception:
            log.exception("A callback for leaving failed.")
            return
        if inspect.isawaitable(result):
            future = asyncio.ensure_future(result)
            self._under_way.add(future)
            future.add_done_callback(self._finished)

    def _finished(self, future: asyncio.Future[object]) -> None:
        self._under_way.discard(future)
        if not future.cancelled() and (error := future.exception()):
            log.error("A callback for leaving failed.", exc_info=error)
