"""Coolify's job workers, shared by deployments, stops and deletes."""

from collections import deque
from collections.abc import Callable

from botpool.emulators.coolify.simulation import Simulation

Job = Callable[[], None]
"""Begins its work. A call of `WorkerPool.release` follows when the worker is free again."""


class WorkerPool:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._free = simulation.config.workers
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Queue a job; workers take jobs in order, `pick_up_s` later at the earliest."""
        delay_s = self._simulation.randomness.between(self._simulation.config.pick_up_s)
        self._simulation.scheduler.after(delay_s, lambda: self._enqueue(job))

    def release(self) -> None:
        """Free the worker of a job; each job does this once."""
        self._free += 1
        self._start_jobs()

    def _enqueue(self, job: Job) -> None:
        self._waiting.append(job)
        self._start_jobs()

    def _start_jobs(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._waiting.popleft()()
