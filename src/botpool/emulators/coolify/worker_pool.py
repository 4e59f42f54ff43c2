"""Coolify's job workers, shared by deployments, stops and deletes."""

from collections import deque
from collections.abc import Callable

from botpool.emulators.coolify.simulation import Simulation

Release = Callable[[], None]
Job = Callable[[Release], None]
"""Begins its work and calls the given function when the worker is free again."""


class WorkerPool:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._free = simulation.config.workers
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Queue a job; workers take jobs in order, `pick_up_s` later at the earliest."""
        delay_s = self._simulation.config.pick_up_s
        self._simulation.scheduler.after(delay_s, lambda: self._enqueue(job))

    def _enqueue(self, job: Job) -> None:
        self._waiting.append(job)
        self._start_jobs()

    def _start_jobs(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._waiting.popleft()(self._release_once())

    def _release_once(self) -> Release:
        """Return a function that frees one worker at its first call and then does nothing."""
        held = [True]

        def release() -> None:
            if held:
                held.clear()
                self._free += 1
                self._start_jobs()

        return release
