"""Bugs put in by hand: a test that looks for bugs must find those that are there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from botpool.store import database


@contextmanager
def changed(name: str, changes: Mapping[str, str]) -> Iterator[None]:
    """One statement, with some of its words replaced."""
    unchanged = database.sent_text
    text = unchanged(name)
    for words, others in changes.items():
        assert words in text, f"{name}.sql does not say {words!r} any more"
        text = text.replace(words, others)

    def read(wanted: str) -> str:
        return text if wanted == name else unchanged(wanted)

    with mock.patch.object(database, "sent_text", read):
        yield
