"""Each SQL file is one query with the file's parameters, and only the store names SQL files."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import botpool
from botpool.store.query import Query
from botpool.store.statements import positional, sent_text, statement_text

SOURCE = Path(botpool.__path__[0])
STORE = SOURCE / "store"
SQL_FILES = frozenset(
    file.name.removesuffix(".sql")
    for file in (files("botpool.store") / "sql" / "queries").iterdir()
)


def declared_queries() -> Iterator[Query[..., Any]]:
    for path in STORE.glob("*.py"):
        module = import_module(f"botpool.store.{path.stem}")
        for value in vars(module).values():
            if isinstance(value, Query) and value.declaration.__module__ == module.__name__:
                yield value


QUERIES = sorted(declared_queries(), key=lambda query: query.name)


def strings(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def declared_parameters(query: Query[..., Any]) -> Iterator[str]:
    for parameter in inspect.signature(query.declaration).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (columns,) = get_args(parameter.annotation)
            yield from get_type_hints(columns)
        else:
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
            yield parameter.name


def test_each_sql_file_is_one_query() -> None:
    assert Counter(query.name for query in QUERIES) == Counter(SQL_FILES)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_query_declares_the_parameters_of_its_file(query: Query[..., Any]) -> None:
    _, names = positional(sent_text(query.name))
    assert sorted(declared_parameters(query)) == sorted(names)
    assert query.__doc__


def test_only_the_store_names_sql_files() -> None:
    named = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in SOURCE.rglob("*.py")
        if STORE not in path.parents
        for text in strings(ast.parse(path.read_text()))
        # A single word, such as the task name "listen", may be anything.
        if "_" in text and text in SQL_FILES
    ]
    assert named == []


def test_both_lists_of_bots_return_the_same_columns() -> None:
    """The list of one tenant differs only in how it finds the bots."""
    texts = [statement_text(name) for name in ("list_bots", "list_bots_of_tenant")]
    shown = [text[text.rindex("SELECT\n    b.id, b.correlation_id") :] for text in texts]
    assert shown[0] == shown[1]
