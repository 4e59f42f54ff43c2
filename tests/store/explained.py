"""The generic plans of the product's statements and the rows that they read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from botpool.store.statements import positional, sent_text


def explained(
    connection: psycopg.Connection,
    name: str,
    parameters: Mapping[str, Any],
    *,
    in_transaction: bool = False,
) -> dict[str, Any]:
    """Run a statement with its generic plan, roll it back and return the plan with its counts."""
    if not in_transaction:
        connection.execute("BEGIN")
    plan(connection, name, parameters)
    executed = executed_as_planned(connection, name, parameters)
    if not in_transaction:
        connection.execute("ROLLBACK")
    connection.execute(f"DEALLOCATE {name}")
    return executed


def plan(connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]) -> None:
    """Prepare and plan a statement without running it."""
    text, order = positional(sent_text(name))
    connection.execute(f"PREPARE {name} AS {text.decode()}")
    connection.execute(f"EXPLAIN {_execute(name, order)}", [parameters[each] for each in order])


def executed_as_planned(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a planned statement and return its plan with the rows that each part read."""
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


def read_whole(plan: dict[str, Any]) -> list[str]:
    """Return the tables that the plan reads completely.

    A join may read the first row of a table before it finds nothing to join.
    """
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and touched(node) > 2
    ]


def rows_read(plan: dict[str, Any]) -> int:
    return sum(touched(node) for node in nodes(plan))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def touched(node: dict[str, Any]) -> int:
    """Return the rows that a scan read, filtered rows included."""
    if "Relation Name" not in node or node["Node Type"] == "ModifyTable":
        return 0
    left_out = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + left_out) * node["Actual Loops"])
