"""Lists as PostgreSQL reads arrays.

psycopg looks through a list for the narrowest type that holds all of it, item by item, and a
statement is prepared anew for every type it finds. Ours say `::bigint[]` themselves, so the type is
left to them: one plan for each statement, and no search for a type.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper


class ArrayDumper(Dumper):
    """Of lists without lists in them."""

    def dump(self, obj: Sequence[Any]) -> Buffer:
        kinds = set(map(type, obj))
        if len(kinds) == 1:  # As nearly all of ours are: all items at once.
            text = _writer(kinds.pop())(obj)
        else:
            text = ",".join([_writer(type(item))([item]) for item in obj])
        return f"{{{text}}}".encode()


_Writer: TypeAlias = Callable[[Sequence[Any]], str]
"""Writes items that are all of one kind, with commas between them."""


def _writer(kind: type) -> _Writer:
    if (writer := _WRITERS.get(kind)) is not None:
        return writer
    if issubclass(kind, str):  # As our states are.
        return _texts
    raise psycopg.ProgrammingError(f"cannot send a list of {kind.__name__}")


def _texts(items: Sequence[str]) -> str:
    # Separated, until they are quoted, by what none of them may contain.
    text = "\0".join(items)
    if text.count("\0") >= len(items):
        raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00)")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'"{quoted}"'


_WRITERS: dict[type, _Writer] = {
    type(None): lambda items: ",".join(["NULL"] * len(items)),
    int: lambda items: ",".join(map(str, items)),
    bool: lambda items: ",".join(["t" if item else "f" for item in items]),
    str: _texts,
    bytes: lambda items: ",".join([f'"\\\\x{item.hex()}"' for item in items]),
    datetime: lambda items: ",".join([f'"{item.isoformat()}"' for item in items]),
}
