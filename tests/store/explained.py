"""What a statement of the product reads: its plan, made once without knowing what it is asked."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from botpool.store.statements import sent_text


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
    order = _order(name)
    text = re.sub(r"%\((\w+)\)s", lambda found: f"${order.index(found[1]) + 1}", sent_text(name))
    connection.execute(f"PREPARE {name} AS {text.replace('%%', '%')}")
    connection.execute(f"EXPLAIN {_execute(name)}", [parameters[each] for each in order])


def executed_as_planned(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """What a planned statement does now: its plan, with what each part of it read."""
    values = [parameters[each] for each in _order(name)]
    row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {_execute(name)}", values).fetchone()
    assert row is not None
    executed: dict[str, Any] = row[0][0]["Plan"]
    return executed


def _order(name: str) -> list[str]:
    """The names of its parameters, each once."""
    return list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sent_text(name))))


def _execute(name: str) -> str:
    given = ", ".join(["%s"] * len(_order(name)))
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
