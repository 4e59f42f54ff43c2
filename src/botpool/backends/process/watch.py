"""Notices when runs end, whoever started them, and gives hints for `changes`."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress

from botpool.backends.process.directory import Directory
from botpool.backends.process.ending import poll_until_free, process_ended
from botpool.domain.ids import ContainerId

POLL_S = 0.25
"""Only where the kernel has no descriptor of a process to wait for."""
KEPT_HINTS = 10_000


class Watch:
    def __init__(self) -> None:
        self._hints: asyncio.Queue[ContainerId | None] = asyncio.Queue(KEPT_HINTS)
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, directory: Directory) -> None:
        """Follow what runs there, if anything does."""
        run = directory.run()
        if run is not None and directory.is_held():
            self._spawn(self._follow(directory, run.pid))

    async def hints(self) -> AsyncIterator[ContainerId]:
        while (container_id := await self._hints.get()) is not None:
            yield container_id
        self._hint(None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hint(None)

    async def _follow(self, directory: Directory, pid: int) -> None:
        await process_ended(pid)
        with suppress(OSError):
            await poll_until_free(directory, every_s=POLL_S)
        self._hint(directory.container_id)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hint(self, container_id: ContainerId | None) -> None:
        with suppress(asyncio.QueueFull):
            self._hints.put_nowait(container_id)
