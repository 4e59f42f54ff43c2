"""Bugs put in by hand, to see that the schedules find them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from botpool.domain.observation import ContainerState
from botpool.engine.lifecycle.release import Releaser
from tests.support.planting import changed


@contextmanager
def _released_before_the_stop() -> Iterator[None]:
    async def looks_stopped(*_: Any) -> ContainerState:
        return ContainerState.STOPPED

    with mock.patch.object(Releaser, "_stop_and_look", looks_stopped):
        yield


def _counted_outside_the_lock() -> AbstractContextManager[None]:
    return changed("lock_pool", {"pg_advisory_xact_lock(1651471472, hashtext(%(pool_name)s))": "1"})


@contextmanager
def _grown_beyond_the_maximum() -> Iterator[None]:
    """As above, where numbers are no guard: each transaction takes some that no other can."""
    numbers = "SELECT 10 * pg_current_xact_id()::text::integer + generate_series(1, pool.max_size)"
    with (
        _counted_outside_the_lock(),
        changed("grow_pool", {"generate_series(1, pool.max_size)": f"LATERAL ({numbers})"}),
    ):
        yield


BUGS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "a pool's slots are counted outside its lock": _counted_outside_the_lock,
    "a pool's slots are counted outside its lock, and numbers are no limit": (
        _grown_beyond_the_maximum
    ),
    "a slot is released before its container has stopped": _released_before_the_stop,
    "an end without a fence reaches whoever came after": lambda: changed(
        "end_bots",
        {
            "s.id = a.slot_id AND s.assignment_id = a.id": "s.id = a.slot_id",
            "(e.version IS NULL OR s.version = e.version)": "true",
        },
    ),
}
