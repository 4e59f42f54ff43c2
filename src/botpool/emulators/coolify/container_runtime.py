"""The interface to the programs that run in emulated containers.

The emulator decides when a container starts and stops; a runtime starts and stops its program. The
emulator calls the methods synchronously, so each must return quickly.
"""

import itertools
from collections.abc import Hashable, Mapping
from typing import Protocol


class ContainerRuntime(Protocol):
    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        """Start a container and return a handle for this run."""
        ...

    def request_stop(self, handle: Hashable) -> None:
        """Begin the grace period, like SIGTERM. The program may exit or run until `stop`."""
        ...

    def stop(self, handle: Hashable) -> None:
        """End every process of the run before returning. A run that has ended is no error."""
        ...

    def is_running(self, handle: Hashable) -> bool:
        """Return False once the program has exited or was stopped."""
        ...

    def output(self, handle: Hashable, lines: int) -> str:
        """Return the last lines of the program's output."""
        ...


class SimulatedRuntime:
    """Containers without processes; each runs until it is stopped."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._running: set[Hashable] = set()

    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        handle = next(self._numbers)
        self._running.add(handle)
        return handle

    def request_stop(self, handle: Hashable) -> None:
        """Do nothing: the container uses its whole grace period."""

    def stop(self, handle: Hashable) -> None:
        self._running.discard(handle)

    def is_running(self, handle: Hashable) -> bool:
        return handle in self._running

    def output(self, handle: Hashable, lines: int) -> str:
        return ""
