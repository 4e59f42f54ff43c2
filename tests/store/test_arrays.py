"""Lists come to PostgreSQL as they are, and as what the statement says they are."""

from datetime import UTC
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botpool.domain.states import BotStatus
from botpool.store.arrays import ArrayDumper
from botpool.store.database import Database
from botpool.store.statements import sent_text

from postgres import TestPostgres

_ITEMS: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    "bigint": st.integers(min_value=-(2**63), max_value=2**63 - 1),
    "boolean": st.booleans(),
    "bytea": st.binary(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
}
_AWKWARD = [
    "",
    " ",
    "NULL",
    "null",
    "{}",
    '{"a": 1}',
    '"',
    "\\",
    '\\"',
    "a,b",
    "'",
    "\n",
    "é",
    "🤖",
]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@pytest.mark.parametrize("kind", _ITEMS)
def test_what_is_sent_is_what_arrives(database_url: str, kind: str, data: st.DataObject) -> None:
    items = data.draw(st.lists(_ITEMS[kind]) | st.lists(st.none() | _ITEMS[kind]))
    assert _echoed(database_url, kind, items) == items


def test_what_looks_like_something_else_is_text(database_url: str) -> None:
    assert _echoed(database_url, "text", _AWKWARD) == _AWKWARD
    assert _echoed(database_url, "text", [*_AWKWARD, None]) == [*_AWKWARD, None]


def test_a_state_is_text(database_url: str) -> None:
    assert _echoed(database_url, "text", [BotStatus.DONE, None]) == ["DONE", None]
    assert _echoed(database_url, "text", [BotStatus.DONE, BotStatus.FAILED]) == ["DONE", "FAILED"]


@pytest.mark.parametrize("items", [["a\0b"], [BotStatus.DONE, "\0"]])
def test_a_text_that_postgresql_cannot_hold_is_refused(database_url: str, items: list[str]) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        _echoed(database_url, "text", items)


@pytest.mark.parametrize("item", [["nested"], 1.5])
def test_what_we_never_send_is_refused(database_url: str, item: object) -> None:
    with pytest.raises(psycopg.ProgrammingError, match="cannot send a list of"):
        _echoed(database_url, "text", [item])


async def test_a_database_of_another_encoding_reads_them_as_they_are(
    postgres: TestPostgres, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE arrays_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        )
        url = database_url.replace(f"/{connection.info.dbname}?", "/arrays_latin1?")
    query = "SELECT %(names)s::text[] AS names, length((%(names)s::text[])[1]) AS letters"
    monkeypatch.setattr(
        "botpool.store.database.sent_text",
        lambda name: {"echo": query}.get(name) or sent_text(name),
    )
    database = Database(url)
    await database.open()
    try:
        assert await database.fetch("echo", {"names": ["Jörg"]}) == [
            {"names": ["Jörg"], "letters": 4}
        ]
    finally:
        await database.close()
        postgres.drop_database(url)


def test_a_statement_is_prepared_once_whatever_it_carries(database_url: str) -> None:
    with _connected(database_url) as connection:
        for items in ([1], [40_000], [2**62], [None], []):
            connection.execute("SELECT %s::bigint[]", (items,), prepare=True)
        plans = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert plans == [("SELECT $1::bigint[]",)]


def _echoed(url: str, kind: str, items: list[Any]) -> object:
    with _connected(url) as connection:
        row = connection.execute(f"SELECT %s::{kind}[]", (items,)).fetchone()
    assert row is not None
    return row[0]


def _connected(url: str) -> psycopg.Connection:
    connection = psycopg.connect(url)
    connection.adapters.register_dumper(list, ArrayDumper)
    return connection
