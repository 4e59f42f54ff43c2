"""Each SQL file has one typed function, and only the store names SQL files."""

import ast
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import botpool

SOURCE = Path(botpool.__path__[0])
STORE = SOURCE / "store"
SQL_FILES = frozenset(
    file.name.removesuffix(".sql")
    for file in (files("botpool.store") / "sql" / "queries").iterdir()
)


def strings(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def statement_functions() -> Iterator[tuple[str, str]]:
    """Yield the name of each function that creates a `Statement`, and the SQL file it names."""
    for path in STORE.glob("*.py"):
        for function in ast.parse(path.read_text()).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in ast.walk(function):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Name)
                    and call.func.id == "Statement"
                ):
                    name = call.args[0]
                    assert isinstance(name, ast.Constant), f"{function.name}: a literal name"
                    yield function.name, str(name.value)


def test_each_sql_file_has_one_function_of_its_name() -> None:
    functions = list(statement_functions())
    assert all(function == sql_file for function, sql_file in functions)
    assert Counter(sql_file for _, sql_file in functions) == Counter(SQL_FILES)


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
