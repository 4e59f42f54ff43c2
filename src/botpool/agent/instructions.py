"""Instructions of the control plane to the bot: leave the meeting, or exit at once."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

LeaveCallback = Callable[[], Awaitable[object] | object]


class Instructions:
    """Two events that are set at most once. An exit also sets `leave_requested`."""

    def __init__(self) -> None:
        self.leave_requested = asyncio.Event()
        self.exit_requested = asyncio.Event()
        self._callbacks: list[LeaveCallback] = []
        self._running: set[asyncio.Future[object]] = set()

    def on_leave(self, callback: LeaveCallback) -> None:
        """Register a callback that runs once, immediately if a leave was already requested."""
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
        for future in self._running:
            future.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _run(self, callback: LeaveCallback) -> None:
        try:
            result = callback()
        except Exception:
            log.exception("An on_leave callback failed.")
            return
        if inspect.isawaitable(result):
            future = asyncio.ensure_future(result)
            self._running.add(future)
            future.add_done_callback(self._finished)

    def _finished(self, future: asyncio.Future[object]) -> None:
        self._running.discard(future)
        if not future.cancelled() and (error := future.exception()):
            log.error("An on_leave callback failed.", exc_info=error)
