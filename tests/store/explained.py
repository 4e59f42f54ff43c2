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
    order = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sent_text(name))))
    text = re.sub(r"%\((\w+)\)s", lambda found: f"${order.index(found[1]) + 1}", sent_text(name))
    given = ", ".join(["%s"] * len(order))
    execute = "EXECUTE examined" + (f" ({given})" if order else "")
    if not in_transaction:
        connection.execute("BEGIN")
    connection.execute(f"PREPARE examined AS {text.replace('%%', '%')}")
    values = [parameters[each] for each in order]
    row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {execute}", values).fetchone()
    if not in_transaction:
        connection.execute("ROLLBACK")
    connection.execute("DEALLOCATE examined")
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


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
