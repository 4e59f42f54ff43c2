"""Bugs that the tests inject to check that the schedules find them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from botpool.domain.observation import ContainerState
from botpool.engine.lifecycle.release import Releaser
from tests.support.replaced_statements import changed


@contextmanager
def _release_before_stop() -> Iterator[None]:
    async def report_stopped(*_: Any) -> ContainerState:
        return ContainerState.STOPPED

    with mock.patch.object(Releaser, "_stop", report_stopped):
        yield


def _count_outside_lock() -> AbstractContextManager[None]:
    return changed("lock_pool", {"pg_advisory_xact_lock(1651471472, hashtext(%(pool_name)s))": "1"})


@contextmanager
def _grow_beyond_maximum() -> Iterator[None]:
    """Count outside the lock and use slot numbers that no other transaction can use.

    The unique index on slot numbers then prevents no growth beyond the maximum.
    """
    numbers = "SELECT 10 * pg_current_xact_id()::text::integer + generate_series(1, pool.max_size)"
    with (
        _count_outside_lock(),
        changed("grow_pool", {"generate_series(1, pool.max_size)": f"LATERAL ({numbers})"}),
    ):
        yield


BUGS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "a pool's slots are counted outside its lock": _count_outside_lock,
    "a pool's slots are counted outside its lock, and slot numbers do not collide": (
        _grow_beyond_maximum
    ),
    "a slot is released before its container has stopped": _release_before_stop,
    "a bot's end is written without a fence": lambda: changed(
        "end_bots",
        {
            "s.id = a.slot_id AND s.assignment_id = a.id": "s.id = a.slot_id",
            "(e.version IS NULL OR s.version = e.version)": "true",
        },
    ),
}
