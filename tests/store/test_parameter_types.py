"""Parameters of statements reach PostgreSQL unchanged and with the type of their cast."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botpool.domain.states import BotStatus
from botpool.store.database import Database
from botpool.store.parameter_types import UntypedArray, register_dumpers
from botpool.store.query import Statement
from tests.support.postgres import TestPostgres
from tests.support.replaced_statements import replaced_statements

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
        register_dumpers(connection)
        yield connection


@given(data=st.data())
@_OFTEN
@pytest.mark.parametrize("kind", _KINDS)
def test_list_arrives_unchanged(
    connection: psycopg.Connection, kind: str, data: st.DataObject
) -> None:
    items = data.draw(st.lists(_KINDS[kind]) | st.lists(st.none() | _KINDS[kind]))
    assert _echoed(connection, f"{kind}[]", items) == items


@given(data=st.data())
@_OFTEN
@pytest.mark.parametrize("kind", [*_KINDS, *_ONLY_ALONE])
def test_value_arrives_unchanged(
    connection: psycopg.Connection, kind: str, data: st.DataObject
) -> None:
    value = data.draw(st.none() | (_KINDS | _ONLY_ALONE)[kind])
    assert _echoed(connection, kind, value) == value


def test_text_with_special_characters_arrives_unchanged(connection: psycopg.Connection) -> None:
    assert _echoed(connection, "text[]", _AWKWARD) == _AWKWARD
    assert _echoed(connection, "text[]", [*_AWKWARD, None]) == [*_AWKWARD, None]
    for text in _AWKWARD:
        assert _echoed(connection, "text", text) == text


def test_string_enum_arrives_as_text(connection: psycopg.Connection) -> None:
    assert _echoed(connection, "text", BotStatus.DONE) == "DONE"
    assert _echoed(connection, "text[]", [BotStatus.DONE, None]) == ["DONE", None]
    assert _echoed(connection, "text[]", [BotStatus.DONE, BotStatus.FAILED]) == ["DONE", "FAILED"]


@pytest.mark.parametrize("value", ["a\0b", ["a\0b"], [BotStatus.DONE, "\0"], [None, "\0"]])
def test_text_with_nul_is_refused(connection: psycopg.Connection, value: object) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        connection.execute("SELECT %s", [value])


@pytest.mark.parametrize("items", [["nested", ["list"]], [1.5], [{"a": 1}]])
def test_list_of_unsupported_type_is_refused(items: list[object]) -> None:
    with pytest.raises(psycopg.ProgrammingError, match="is no statement parameter"):
        UntypedArray(list).dump(items)


async def test_text_arrives_unchanged_in_a_database_of_another_encoding(
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
        with replaced_statements(echo=query):
            rows = await database.query(Statement("echo", {"names": ["Jörg"], "name": "Zoë"}, list))
        assert rows == [{"names": ["Jörg"], "letters": 4, "name": "Zoë"}]
    finally:
        await database.close()
        postgres.drop_database(url)


def _echoed(connection: psycopg.Connection, kind: str, value: object) -> object:
    row = connection.execute(f"SELECT %s::{kind}", [value]).fetchone()
    assert row is not None
    return row[0]
