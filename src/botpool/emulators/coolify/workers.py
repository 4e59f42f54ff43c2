"""Coolify's workers: few, and shared by deployments, stops and deletes."""

from collections import deque
from collections.abc import Callable

from botpool.emulators.coolify.scene import Scene

Release = Callable[[], None]
Job = Callable[[Release], None]
"""Begins its work when a worker is free, and calls what it is given when that worker is."""


class Workers:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._free = scene.nature.workers
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Taken up in order, a moment later at the earliest."""
        self._scene.agenda.after(self._scene.nature.pick_up_s, lambda: self._enqueue(job))

    def _enqueue(self, job: Job) -> None:
        self._waiting.append(job)
        self._take_up()

    def _take_up(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._waiting.popleft()(self._once())

    def _once(self) -> Release:
        """A worker is released once, however many ends a job has."""
        held = [True]

        def release() -> None:
            if held:
                held.clear()
                self._free += 1
                self._take_up()

        return release
