"""The time at which a scheduled bot joins, by this process's monotonic clock.

The control plane sends durations, because the container's clock may be wrong.
"""

import asyncio
import contextlib


class JoinTime:
    """A time that heartbeats may move while the bot waits for it."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._moved = asyncio.Event()

    def set(self, remaining_ms: float) -> None:
        """Set the time from the duration that the control plane sent."""
        self._at = asyncio.get_running_loop().time() + remaining_ms / 1000
        self._moved.set()

    @property
    def remaining_s(self) -> float:
        if self._at is None:
            return 0.0
        return max(0.0, self._at - asyncio.get_running_loop().time())

    async def wait(self, interrupted: asyncio.Event) -> bool:
        """Wait until the time has come; False if `interrupted` was set before."""
        interruption = asyncio.ensure_future(interrupted.wait())
        try:
            while not interrupted.is_set() and (remaining_s := self.remaining_s) > 0:
                self._moved.clear()
                moved = asyncio.ensure_future(self._moved.wait())
                try:
                    await asyncio.wait(
                        {interruption, moved},
                        timeout=remaining_s,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    moved.cancel()
            return not interrupted.is_set()
        finally:
            interruption.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await interruption
