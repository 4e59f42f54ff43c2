"""Lists as PostgreSQL reads arrays.

psycopg looks through a list for the narrowest type that holds all of it, item by item, and a
statement is prepared anew for every type it finds. Ours say `::bigint[]` themselves, so the type is
left to them: one plan for each statement, and no search for a type.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper


class ArrayDumper(Dumper):
    """Of lists without lists in them."""

    def dump(self, obj: Sequence[Any]) -> Buffer:
        text = ",".join([_TEXT.get(type(item), _other)(item) for item in obj])
        if "\0" in text:
            raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00)")
        return f"{{{text}}}".encode()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _other(item: object) -> str:
    """What is a kind of text, as our states are."""
    if isinstance(item, str):
        return _quoted(item)
    raise psycopg.ProgrammingError(f"cannot send a list of {type(item).__name__}")


_TEXT: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "NULL",
    int: int.__repr__,
    bool: lambda value: "t" if value else "f",
    str: _quoted,
    bytes: lambda value: f'"\\\\x{value.hex()}"',
    datetime: lambda value: f'"{value.isoformat()}"',
}
