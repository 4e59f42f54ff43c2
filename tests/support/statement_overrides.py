"""Replaces SQL statements in a test, for example to inject a bug."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from botpool.store import statement_connection


@contextmanager
def replaced_statements(**statements: str) -> Iterator[None]:
    """Use these statements by name, in addition to the product's or instead of them."""
    unchanged = statement_connection.sent_text

    def read(name: str) -> str:
        return statements.get(name) or unchanged(name)

    with mock.patch.object(statement_connection, "sent_text", read):
        yield


@contextmanager
def edited_statement(name: str, changes: Mapping[str, str]) -> Iterator[None]:
    """Use one statement with some of its text replaced."""
    text = statement_connection.sent_text(name)
    for words, replacement in changes.items():
        assert words in text, f"{name}.sql does not contain {words!r}"
        text = text.replace(words, replacement)
    with replaced_statements(**{name: text}):
        yield
