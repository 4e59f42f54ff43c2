"""Small changes of Pods that no caller waits for. A lost one is repeated by a later observation.

- The labels that protect a Pod with a bot in a call, and their removal.
- The removal of Pods whose stop was confirmed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

import structlog

from botpool.domain.errors import BackendError

_log = structlog.get_logger()
_WORKERS = 4
_MAX_WAITING = 10_000

Chore = Callable[[], Awaitable[object]]


class Chores:
    """Runs chores in the background, each key once at a time."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Chore] = {}
        self._active: set[Hashable] = set()
        self._wake = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []

    def add(self, key: Hashable, chore: Chore) -> None:
        """Run the chore soon, unless the same one is waiting or running."""
        if key in self._active or len(self._waiting) >= _MAX_WAITING:
            return
        self._waiting[key] = chore
        if len(self._workers) < _WORKERS:
            self._workers.append(asyncio.create_task(self._work(), name="kubernetes chores"))
        self._wake.set()

    async def close(self) -> None:
        """Drop what is left: a later observation finds it again."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._waiting))
            chore = self._waiting.pop(key)
            self._active.add(key)
            try:
                await chore()
            except BackendError as error:
                _log.info("kubernetes.chore_postponed", problem=str(error))
            except Exception:
                _log.exception("kubernetes.chore_failed")
            finally:
                self._active.discard(key)
