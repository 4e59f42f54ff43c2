"""Statements as they are sent."""

from importlib.resources import files

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from botpool.store.statements import sent_text

_NAMES = sorted(
    file.name.removesuffix(".sql")
    for file in (files("botpool.store") / "sql" / "queries").iterdir()
)


def test_comments_and_indentation_are_not_sent() -> None:
    sent = sent_text("lock_pool")
    assert sent == "SELECT pg_advisory_xact_lock(1651471472, hashtext(%(platform)s))"


@pytest.mark.parametrize("name", _NAMES)
def test_none_is_too_long_for_psycopg_to_remember_how_it_is_read(name: str) -> None:
    assert len(sent_text(name).encode()) <= MAX_CACHED_STATEMENT_LENGTH
