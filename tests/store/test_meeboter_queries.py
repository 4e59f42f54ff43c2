"""Each SQL file of the import is one query with the file's parameters."""

import inspect
from importlib.resources import files
from typing import Any

import pytest

from botpool.store.meeboter import queries
from botpool.store.query import Query
from botpool.store.statements import positional

FOLDER = files("botpool.store.meeboter") / "sql"
QUERIES = {
    value.name: value
    for value in vars(queries).values()
    if isinstance(value, Query) and value.declaration.__module__ == queries.__name__
}


def test_each_sql_file_is_one_query() -> None:
    assert sorted(QUERIES) == sorted(file.name.removesuffix(".sql") for file in FOLDER.iterdir())


@pytest.mark.parametrize("query", QUERIES.values(), ids=lambda query: query.name)
def test_query_declares_the_parameters_of_its_file(query: Query[..., Any]) -> None:
    _, names = positional((FOLDER / f"{query.name}.sql").read_text())
    assert sorted(inspect.signature(query.declaration).parameters) == sorted(names)
    assert query.__doc__
