"""The code map names files and functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "code-map.md"
SOURCE = ROOT / "src" / "botpool"
SQL = SOURCE / "store" / "sql" / "queries"


def named_files() -> list[str]:
    """Return every file that the page names, relative to `src/botpool` or to the SQL queries."""
    return sorted(set(re.findall(r"`([\w/.-]+\.(?:py|sql))`", PAGE.read_text())))


def named_functions() -> list[tuple[str, str]]:
    """Return each row's file with each function of its second column."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    return [(file, name) for file, names in rows for name in re.findall(r"`([\w.]+)`", names)]


@cache
def definitions(path: Path) -> set[str]:
    """Return the functions, classes and methods of a module: `f`, `C`, `C.m`, also nested ones."""
    found: set[str] = set()

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found.add(child.name)
                visit(child, f"{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + child.name)
                visit(child, "")
            else:
                visit(child, prefix)

    visit(ast.parse(path.read_text()), "")
    return found


def test_the_page_names_files_and_functions() -> None:
    assert len(named_files()) > 20
    assert len(named_functions()) > 20


@pytest.mark.parametrize("file", named_files())
def test_every_named_file_exists(file: str) -> None:
    assert (SOURCE / file).is_file() or (SQL / file).is_file() or (ROOT / file).is_file()


@pytest.mark.parametrize(("file", "name"), named_functions())
def test_every_named_function_is_defined_in_its_file(file: str, name: str) -> None:
    assert name in definitions(SOURCE / file)
