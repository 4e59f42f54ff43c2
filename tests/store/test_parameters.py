"""What a statement is given comes to PostgreSQL as it is, and as what the statement says it is."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus

from botpool.domain.states import BotStatus
from botpool.store.database import Database
from botpool.store.parameters import written
from tests.support.planting import planted
from tests.support.postgres import TestPostgres

_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    "bigint": st.integers(min_value=-(2**63), max_value=2**63 - 1),
    "boolean": st.booleans(),
    "bytea": st.binary(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
}
_ONLY_ALONE: dict[str, st.SearchStrategy[Any]] = {
    "float8": st.floats(allow_nan=False),
    "json": st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers() | st.booleans()),
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
    "\\x41",
    "a,b",
    "'",
    "\n",
    "é",
    "🤖",
]
_OFTEN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@given(data=st.data())
@_OFTEN
@pytest.mark.parametrize("kind", _KINDS)
def test_a_list_that_is_sent_is_what_arrives(
    connection: psycopg.Connection, kind: str, data: st.DataObject
) -> None:
    items = data.draw(st.lists(_KINDS[kind]) | st.lists(st.none() | _KINDS[kind]))
    assert _echoed(connection, f"{kind}[]", items) == items


@given(data=st.data())
@_OFTEN
@pytest.mark.parametrize("kind", [*_KINDS, *_ONLY_ALONE])
def test_a_value_that_is_sent_is_what_arrives(
    connection: psycopg.Connection, kind: str, data: st.DataObject
) -> None:
    value = data.draw(st.none() | (_KINDS | _ONLY_ALONE)[kind])
    assert _echoed(connection, kind, value) == value


def test_what_looks_like_something_else_is_text(connection: psycopg.Connection) -> None:
    assert _echoed(connection, "text[]", _AWKWARD) == _AWKWARD
    assert _echoed(connection, "text[]", [*_AWKWARD, None]) == [*_AWKWARD, None]
    for text in _AWKWARD:
        assert _echoed(connection, "text", text) == text


def test_a_state_is_text(connection: psycopg.Connection) -> None:
    assert _echoed(connection, "text", BotStatus.DONE) == "DONE"
    assert _echoed(connection, "text[]", [BotStatus.DONE, None]) == ["DONE", None]
    assert _echoed(connection, "text[]", [BotStatus.DONE, BotStatus.FAILED]) == ["DONE", "FAILED"]


@pytest.mark.parametrize("value", ["a\0b", ["a\0b"], [BotStatus.DONE, "\0"], [None, "\0"]])
def test_a_text_that_postgresql_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        written(value)


@pytest.mark.parametrize("value", [["nested", ["list"]], [1.5], ("a", "b"), {1, 2}])
def test_what_we_never_send_is_refused(value: object) -> None:
    with pytest.raises(psycopg.ProgrammingError, match="cannot be given a"):
        written(value)


async def test_a_database_of_another_encoding_reads_it_as_it_is(
    postgres: TestPostgres, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE arrays_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        )
        url = database_url.replace(f"/{connection.info.dbname}?", "/arrays_latin1?")
    query = """
    SELECT %(names)s::text[] AS names, length((%(names)s::text[])[1]) AS letters,
        %(name)s::text AS name
    """
    database = Database(url)
    await database.open()
    try:
        with planted(echo=query):
            rows = await database.fetch("echo", {"names": ["Jörg"], "name": "Zoë"})
        assert rows == [{"names": ["Jörg"], "letters": 4, "name": "Zoë"}]
    finally:
        await database.close()
        postgres.drop_database(url)


def _echoed(connection: psycopg.Connection, kind: str, value: object) -> object:
    result = connection.pgconn.exec_params(f"SELECT $1::{kind}".encode(), [written(value)])
    assert result.status == ExecStatus.TUPLES_OK, result.error_message
    reader = Transformer(connection)
    reader.set_pgresult(result)
    (row,) = reader.load_rows(0, 1, tuple)
    return row[0]
