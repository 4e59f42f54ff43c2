"""Bugs put in by hand: a test that looks for bugs must find those that are there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from botpool.store import statement_connection


@contextmanager
def planted(**statements: str) -> Iterator[None]:
    """Statements by these names, beside the product's or instead of them."""
    unchanged = statement_connection.sent_text

    def read(name: str) -> str:
        return statements.get(name) or unchanged(name)

    with mock.patch.object(statement_connection, "sent_text", read):
        yield


@contextmanager
def changed(name: str, changes: Mapping[str, str]) -> Iterator[None]:
    """One statement, with some of its words replaced."""
    text = statement_connection.sent_text(name)
    for words, others in changes.items():
        assert words in text, f"{name}.sql does not say {words!r} any more"
        text = text.replace(words, others)
    with planted(**{name: text}):
        yield
