"""Every test that docs/explanation/lessons.md names exists."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "explanation" / "lessons.md"
LESSONS = 35

NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)::(?:(Test\w+)::)?(test_\w+)`")
EXCEPTION = re.compile(r"[\w ,-]+: (?:does not apply|no test yet)")


def rows() -> list[tuple[int, str]]:
    """Return the number and the test column of each row."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| \d", line)
    ]
    assert all(len(row) == 4 and all(row) for row in cells), "number, fault, prevention, tests"
    return [(int(row[0]), row[3]) for row in cells]


def proofs() -> list[tuple[int, str]]:
    return [(number, proof) for number, shown in rows() for proof in shown.split("<br>")]


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def functions(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def methods(module: Path, name: str) -> set[str]:
    """Return the methods of a class, including those inherited from an imported test module."""
    for node in parsed(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            return functions(node.body).union(*(methods(module, base) for base in bases))
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            source = TESTS.parent / f"{(node.module or '').replace('.', '/')}.py"
            return methods(source, name) if source.exists() else set()
    return set()


def exists(path: str, class_name: str | None, function: str) -> bool:
    module = TESTS / path
    if not module.is_file():
        return False
    if class_name:
        return function in methods(module, class_name)
    return function in functions(parsed(module).body)


def test_every_lesson_has_one_row() -> None:
    assert [number for number, _ in rows()] == list(range(1, LESSONS + 1))


def test_every_proof_is_a_test_that_exists() -> None:
    named = [(number, NAMED.fullmatch(proof)) for number, proof in proofs()]
    gone = [(number, it.group()) for number, it in named if it and not exists(*it.groups())]
    assert gone == []


def test_every_proof_is_a_test_or_an_explicit_exception() -> None:
    odd = [
        (number, proof)
        for number, proof in proofs()
        if not (NAMED.fullmatch(proof) or EXCEPTION.fullmatch(proof))
    ]
    assert odd == []


def test_exists_finds_inherited_tests_and_rejects_unknown_names() -> None:
    coolify = "backends/test_coolify.py"
    assert exists(coolify, "TestCoolifyBackend", "test_observation_confirms_stop"), "inherited"
    assert not exists(coolify, "TestCoolifyBackend", "test_observation_confirms_start")
    assert not exists(coolify, "TestNothing", "test_observation_confirms_stop")
    assert not exists(coolify, None, "test_observation_confirms_stop"), "without its class"
    assert not exists("backends/test_nothing.py", None, "test_observation_confirms_stop")
