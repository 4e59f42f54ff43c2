"""Bugs put in by hand, to see that the schedules find them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from botpool.domain.observation import ContainerState
from botpool.engine.release import Releaser
from botpool.store import database
from botpool.store.statements import sent_text


@contextmanager
def _changed(name: str, changes: Mapping[str, str]) -> Iterator[None]:
    """One statement, with some of its words replaced."""
    text = sent_text(name)
    for words, others in changes.items():
        assert words in text, f"{name}.sql does not say {words!r} any more"
        text = text.replace(words, others)

    def read(wanted: str) -> str:
        return text if wanted == name else sent_text(wanted)

    with mock.patch.object(database, "sent_text", read):
        yield


@contextmanager
def _released_before_the_stop() -> Iterator[None]:
    async def looks_stopped(*_: Any) -> ContainerState:
        return ContainerState.STOPPED

    with mock.patch.object(Releaser, "_stop_and_look", looks_stopped):
        yield


BUGS: Mapping[str, Callable[[], Any]] = {
    "a slot is freed without a fence": lambda: _changed(
        "free_slots",
        {"s.assignment_id = f.assignment_id AND s.version = f.version AND": ""},
    ),
    "a pool's slots are counted outside its lock": lambda: _changed(
        "lock_pool", {"pg_advisory_xact_lock(1651471472, hashtext(%(platform)s))": "1"}
    ),
    "a slot is released before its container has stopped": _released_before_the_stop,
    "an end reaches whoever came after": lambda: _changed(
        "end_bots",
        {
            "s.assignment_id = e.assignment_id": "s.assignment_id >= e.assignment_id",
            "(e.version IS NULL OR s.version = e.version)": "true",
        },
    ),
}
