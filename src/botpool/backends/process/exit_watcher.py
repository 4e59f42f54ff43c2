"""Notices the end of runs, including runs that another replica started, and yields hints."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from botpool.backends.process.container_directory import ContainerDirectory
from botpool.backends.process.terminate import poll_until_ended, wait_for_exit
from botpool.domain.ids import ContainerId

POLL_S = 0.25
"""The poll interval on kernels without pidfd."""
MAX_HINTS = 10_000


class ExitWatcher:
    def __init__(self) -> None:
        self._hints: asyncio.Queue[ContainerId | None] = asyncio.Queue(MAX_HINTS)
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, directory: ContainerDirectory) -> None:
        """Watch the current run of a container, if it has one."""
        run = directory.last_run()
        if run is not None and directory.is_running():
            task = asyncio.create_task(self._watch(directory, run.pid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def hints(self) -> AsyncIterator[ContainerId]:
        while (container_id := await self._hints.get()) is not None:
            yield container_id
        self._hint(None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hint(None)

    async def _watch(self, directory: ContainerDirectory, pid: int) -> None:
        await wait_for_exit(pid)
        with suppress(OSError):
            await poll_until_ended(directory, every_s=POLL_S)
        self._hint(directory.container_id)

    def _hint(self, container_id: ContainerId | None) -> None:
        with suppress(asyncio.QueueFull):
            self._hints.put_nowait(container_id)
