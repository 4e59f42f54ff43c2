"""Query plans of statements, planned generically as in production, and the rows that they read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from botpool.store.statements import positional, sent_text


def explain(
    connection: psycopg.Connection,
    name: str,
    parameters: Mapping[str, Any],
    *,
    in_transaction: bool = False,
) -> dict[str, Any]:
    """Plan and execute a statement, roll it back, and return its plan with row counts."""
    if not in_transaction:
        connection.execute("BEGIN")
    plan(connection, name, parameters)
    executed = execute_planned(connection, name, parameters)
    if not in_transaction:
        connection.execute("ROLLBACK")
    connection.execute(f"DEALLOCATE {name}")
    return executed


def plan(connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]) -> None:
    """Prepare and plan a statement with the current statistics, without executing it."""
    text, order = positional(sent_text(name))
    connection.execute(f"PREPARE {name} AS {text.decode()}")
    connection.execute(f"EXPLAIN {_execute(name, order)}", [parameters[each] for each in order])


def execute_planned(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Execute a planned statement and return its plan with row counts."""
    _, order = positional(sent_text(name))
    values = [parameters[each] for each in order]
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {_execute(name, order)}"
    row = connection.execute(explain, values).fetchone()
    assert row is not None
    executed: dict[str, Any] = row[0][0]["Plan"]
    return executed


def _execute(name: str, parameters: Sequence[str]) -> str:
    given = ", ".join(["%s"] * len(parameters))
    return f"EXECUTE {name}" + (f" ({given})" if given else "")


def scanned_tables(plan: dict[str, Any]) -> list[str]:
    """Return the tables that the plan scans completely.

    A join may read the first row of a table before it finds nothing to join.
    """
    return [
        node["Relation Name"]
        for node in _nodes(plan)
        if node["Node Type"] == "Seq Scan" and _rows_of(node) > 2
    ]


def rows_read(plan: dict[str, Any]) -> int:
    return sum(_rows_of(node) for node in _nodes(plan))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _rows_of(node: dict[str, Any]) -> int:
    """Count the rows that a scan read, including those that its filter removed."""
    if "Relation Name" not in node or node["Node Type"] == "ModifyTable":
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])
