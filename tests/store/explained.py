"""What a statement of the product reads: its plan, made once without knowing what it is asked."""

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
    """The plan that the statement has for all of its lives, and what it did; then it is undone."""
    if not in_transaction:
        connection.execute("BEGIN")
    plan(connection, name, parameters)
    executed = executed_as_planned(connection, name, parameters)
    if not in_transaction:
        connection.execute("ROLLBACK")
    connection.execute(f"DEALLOCATE {name}")
    return executed


def plan(connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]) -> None:
    """Have the server prepare and plan a statement, as things are now, and do nothing."""
    text, order = positional(sent_text(name))
    connection.execute(f"PREPARE {name} AS {text.decode()}")
    connection.execute(f"EXPLAIN {_execute(name, order)}", [parameters[each] for each in order])


def executed_as_planned(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """What a planned statement does now: its plan, with what each part of it read."""
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
    """Tables that are read from end to end. A join may look at the first row of a table before it
    sees that it has nothing to join."""
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
    """Rows that a scan of a table or an index read, those that it then left out included."""
    if "Relation Name" not in node or node["Node Type"] == "ModifyTable":
        return 0
    left_out = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + left_out) * node["Actual Loops"])
