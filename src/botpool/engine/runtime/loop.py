"""The one way in which background work runs: wait for a wake-up or the poll, work, repeat."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import structlog

from botpool.domain.errors import DatabaseUnavailable

_log = structlog.get_logger()
_AFTER_FAILURE_S = 1.0


def _unheard(_: str) -> None: ...


class Loop:
    """Runs `work` at every wake-up, and at least every `interval_s`.

    A failure ends the round, never the loop: what was not done is still written in the database.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        interval_s: float,
        wake: asyncio.Event | None = None,
    ) -> None:
        self.name = name
        self._work = work
        self._interval_s = interval_s
        self._wake = wake or asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self.on_outage: Callable[[str], None] = _unheard
        """Told the loop's name whenever a round ends because the database does not answer."""

    def start(self) -> None:
        self._ending = False
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        if self._task is None:
            return
        # The pool of connections swallows a cancellation that comes as it hands one out.
        self._ending = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    async def _run(self) -> None:
        while not self._ending:
            self._wake.clear()
            try:
                await self._work()
            except DatabaseUnavailable as error:
                _log.warning("loop.database_unavailable", loop=self.name, problem=error.detail)
                self.on_outage(self.name)
                await asyncio.sleep(min(self._jittered(), _AFTER_FAILURE_S))
                continue
            except Exception:
                _log.exception("loop.failed", loop=self.name)
                await asyncio.sleep(min(self._jittered(), _AFTER_FAILURE_S))
                continue
            if not self._ending:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._jittered()):
                        await self._wake.wait()

    def _jittered(self) -> float:
        # Replicas that start together must not ask together for ever.
        return self._interval_s * random.uniform(0.9, 1.1)  # noqa: S311 - no secret depends on it
