"""Background loops: wait for a wake-up or the interval, work, repeat."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import structlog

from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.runtime.clock import loop_time

_log = structlog.get_logger()
_RETRY_S = 1.0
_LATE_AFTER_ROUNDS = 5
_LATE_AFTER_S = 60.0
"""A loop is late after this many intervals, but never sooner than this many seconds."""


def _ignore(_: str) -> None: ...


class Loop:
    """Runs `work` at every wake-up, and at least every `interval_s`.

    A failure ends the round but not the loop: the work that remains is in the database. A round
    that takes as long as a late loop is cancelled, so that no call can stop the loop for ever.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[bool | None]],
        *,
        interval_s: float,
        unused_interval_s: float | None = None,
        wake: asyncio.Event | None = None,
    ) -> None:
        """`unused_interval_s` applies after a round whose work returned False: it is not used."""
        self.name = name
        self._work = work
        self._interval_s = interval_s
        self._unused_interval_s = unused_interval_s or interval_s
        self._wake = wake or asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._finished_at: float | None = None
        self._limit_s = max(_LATE_AFTER_ROUNDS * interval_s, _LATE_AFTER_S)
        self.on_outage: Callable[[str], None] = _ignore
        """Called with the loop's name when a round ends because the database does not answer."""
        self.on_round: Callable[[str], None] = _ignore
        """Called with the loop's name when a round has finished."""

    @property
    def late_s(self) -> float | None:
        """How long ago the last round finished, if that is too long ago; else None.

        A round that fails because the database does not answer has not finished.
        """
        if self._finished_at is None:
            return None  # The loop does not run.
        age_s = loop_time() - self._finished_at
        return age_s if age_s > self._limit_s else None

    def start(self) -> None:
        self._stopping = False
        self._finished_at = loop_time()
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        if self._task is None:
            return
        # The connection pool can swallow a cancellation, so the loop also checks this flag.
        self._stopping = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = self._finished_at = None

    async def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            limit = asyncio.timeout(self._limit_s)
            try:
                async with limit:
                    is_used = await self._work() is not False
            except DatabaseUnavailable as error:
                _log.warning("loop.database_unavailable", loop=self.name, problem=error.detail)
                self.on_outage(self.name)
                await asyncio.sleep(min(self._jittered(), _RETRY_S))
                continue
            except Exception:
                _log.exception("loop.failed", loop=self.name)
                if not limit.expired():
                    self._finish_round()
                await asyncio.sleep(min(self._jittered(), _RETRY_S))
                continue
            self._finish_round()
            if not self._stopping:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._jittered(is_used=is_used)):
                        await self._wake.wait()

    def _finish_round(self) -> None:
        self._finished_at = loop_time()
        self.on_round(self.name)

    def _jittered(self, *, is_used: bool = True) -> float:
        # Replicas that start together must not poll at the same times.
        interval_s = self._interval_s if is_used else self._unused_interval_s
        return interval_s * random.uniform(0.9, 1.1)  # noqa: S311 - no secret depends on it
