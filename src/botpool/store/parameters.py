"""What statements are given, as PostgreSQL reads it.

psycopg looks for the narrowest type that holds a value, in a list item by item, and a statement is
prepared anew for every type it finds. Ours say themselves what they are given, so everything is
sent as text that the server reads as that: one plan for each statement, and no search for a type.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import psycopg


def written(value: Any) -> bytes | None:
    if value is None:
        return None
    kind = type(value)
    if kind is list:
        return _list(value)
    if kind is dict:
        return json.dumps(value).encode()
    return _writer(kind, _VALUES)(value).encode()


def _list(items: Sequence[Any]) -> bytes:
    """A list without lists in it."""
    kinds = set(map(type, items))
    if len(kinds) == 1:  # As nearly all of ours are: all items at once.
        text = _writer(kinds.pop(), _ITEMS)(items)
    else:
        text = ",".join([_writer(type(item), _ITEMS)([item]) for item in items])
    return f"{{{text}}}".encode()


_Writer: TypeAlias = Callable[[Any], str]


def _writer(kind: type, writers: Mapping[type, _Writer]) -> _Writer:
    if (writer := writers.get(kind)) is not None:
        return writer
    if issubclass(kind, str):  # As our states are.
        return writers[str]
    raise psycopg.ProgrammingError(f"a statement cannot be given a {kind.__name__} there")


def _text(value: str) -> str:
    if "\0" in value:
        raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00)")
    return value


def _texts(items: Sequence[str]) -> str:
    # Separated, until they are quoted, by what none of them may contain.
    text = "\0".join(items)
    if text.count("\0") >= len(items):
        raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00)")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'"{quoted}"'


_VALUES: Mapping[type, _Writer] = {
    bool: lambda value: "t" if value else "f",
    int: str,
    float: repr,
    str: _text,
    bytes: lambda value: f"\\x{value.hex()}",
    datetime: datetime.isoformat,
}
_ITEMS: Mapping[type, _Writer] = {
    type(None): lambda items: ",".join(["NULL"] * len(items)),
    bool: lambda items: ",".join(["t" if item else "f" for item in items]),
    int: lambda items: ",".join(map(str, items)),
    str: _texts,
    bytes: lambda items: ",".join([f'"\\\\x{item.hex()}"' for item in items]),
    datetime: lambda items: ",".join([f'"{item.isoformat()}"' for item in items]),
}
"""Of lists: items that are all of one kind, with commas between them."""
