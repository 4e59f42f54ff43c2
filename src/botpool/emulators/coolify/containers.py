"""The seam to what really runs in a container.

The emulator decides when a container starts and stops; a runtime makes it so. Every method is
called from `World.advance`, `World.poll` or an API call, in the thread of the caller, and must
return soon.
"""

import itertools
from collections.abc import Hashable, Mapping
from typing import Protocol, runtime_checkable


class ContainerRuntime(Protocol):
    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        """Start a container; the handle stands for this one run of it."""
        ...

    def ask_to_stop(self, handle: Hashable) -> None:
        """Begin of the grace: what SIGTERM is. It may end by itself, or go on until `stop`."""
        ...

    def stop(self, handle: Hashable) -> None:
        """End of the grace: when this returns, nothing of it runs. Harmless if it had ended."""
        ...

    def is_running(self, handle: Hashable) -> bool:
        """False once it has ended by itself or was stopped. Asked by `World.poll`."""
        ...


@runtime_checkable
class KeepsOutput(Protocol):
    """What a runtime can also do, for `GET /applications/{uuid}/logs`."""

    def output(self, handle: Hashable, lines: int) -> str: ...


class NoProcesses:
    """Containers that run in name only, until they are stopped."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._running: set[Hashable] = set()

    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        handle = next(self._numbers)
        self._running.add(handle)
        return handle

    def ask_to_stop(self, handle: Hashable) -> None:
        """It uses its grace to the end."""

    def stop(self, handle: Hashable) -> None:
        self._running.discard(handle)

    def is_running(self, handle: Hashable) -> bool:
        return handle in self._running
