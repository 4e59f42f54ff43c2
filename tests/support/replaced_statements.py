"""SQL statements that a test adds or replaces, for example to inject a bug."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from botpool.store import statement_connection


@contextmanager
def replaced_statements(**statements: str) -> Iterator[None]:
    """Use these texts for the statements of these names."""
    unchanged = statement_connection.sent_text

    def read(name: str) -> str:
        return statements.get(name) or unchanged(name)

    with mock.patch.object(statement_connection, "sent_text", read):
        yield


@contextmanager
def changed(name: str, changes: Mapping[str, str]) -> Iterator[None]:
    """Replace parts of the text of one statement."""
    text = statement_connection.sent_text(name)
    for old, new in changes.items():
        assert old in text, f"{name}.sql does not contain {old!r}"
        text = text.replace(old, new)
    with replaced_statements(**{name: text}):
        yield
