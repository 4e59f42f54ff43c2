"""Observes a container as soon as its backend announces a change of it.

A backend announces a change once. If the observation after it had no effect, because the backend or
the database did not answer or the slot changed meanwhile, the watcher observes the container again.
The periodic observation covers announcements that a backend loses.
"""

import asyncio
from collections.abc import Coroutine

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.errors import BotpoolError
from botpool.domain.ids import ContainerId
from botpool.engine.lifecycle.observer import Observer

_log = structlog.get_logger()
_RETRIES = 5


class ChangeWatcher:
    """Follows the changes that backends announce."""

    def __init__(self, observer: Observer, *, retry_s: float) -> None:
        self._observer = observer
        self._retry_s = retry_s
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, backend: Backend) -> None:
        self._run(self._watch(name, backend), f"watch {name}")

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, name: str, backend: Backend) -> None:
        while True:
            try:
                async for container_id in backend.changes():
                    if not await self._observe(name, container_id):
                        self._run(self._observe_again(name, container_id), "observe again")
            except BotpoolError as error:
                _log.warning("watch.failed", backend=name, problem=str(error))
            except Exception:
                _log.exception("watch.failed", backend=name)
            await asyncio.sleep(self._retry_s)

    async def _observe(self, name: str, container_id: ContainerId) -> bool:
        """Observe a changed container; returns whether the observation had its effect."""
        try:
            return await self._observer.observe_change(name, container_id)
        except BotpoolError as error:
            _log.warning("watch.failed", backend=name, problem=str(error))
            return False

    async def _observe_again(self, name: str, container_id: ContainerId) -> None:
        for attempt in range(_RETRIES):
            await asyncio.sleep(self._retry_s * 2**attempt)
            if await self._observe(name, container_id):
                return

    def _run(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
