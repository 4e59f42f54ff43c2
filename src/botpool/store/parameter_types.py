"""Parameter types that statements receive, registered through psycopg's adapters.

psycopg derives the type of a list or a number from its value, so one SQL file would be prepared
once for every combination of types. The SQL files cast their parameters, so these dumpers send
values without a type and each file is prepared once.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.types.json import JsonDumper


class UntypedInt(Dumper):
    """Sends a number without a type."""

    def dump(self, obj: int) -> bytes:
        return str(obj).encode()


class UntypedArray(Dumper):
    """Sends a flat sequence as the text of a PostgreSQL array, without a type."""

    def dump(self, obj: Sequence[Any]) -> bytes:
        types = set(map(type, obj))
        if len(types) == 1:
            text = _writer(types.pop())(obj)
        else:
            text = ",".join([_writer(type(item))([item]) for item in obj])
        return f"{{{text}}}".encode()


def register_dumpers(connection: AdaptContext) -> None:
    """Use these dumpers for the parameters of a connection's statements."""
    connection.adapters.register_dumper(int, UntypedInt)
    connection.adapters.register_dumper(list, UntypedArray)
    connection.adapters.register_dumper(tuple, UntypedArray)
    connection.adapters.register_dumper(dict, JsonDumper)


def _writer(item_type: type) -> Callable[[Sequence[Any]], str]:
    if (writer := _WRITERS.get(item_type)) is not None:
        return writer
    if issubclass(item_type, str):
        return _quote_texts
    raise psycopg.ProgrammingError(f"A list of {item_type.__name__} is no statement parameter.")


def _quote_texts(items: Sequence[str]) -> str:
    # NUL, which PostgreSQL text cannot contain, separates the items until they are quoted.
    text = "\0".join(items)
    if text.count("\0") >= len(items):
        raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00) bytes")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'"{quoted}"'


_WRITERS: Mapping[type, Callable[[Sequence[Any]], str]] = {
    type(None): lambda items: ",".join(["NULL"] * len(items)),
    bool: lambda items: ",".join(["t" if item else "f" for item in items]),
    int: lambda items: ",".join(map(str, items)),
    str: _quote_texts,
    bytes: lambda items: ",".join([f'"\\\\x{item.hex()}"' for item in items]),
    datetime: lambda items: ",".join([f'"{item.isoformat()}"' for item in items]),
}
"""Each writes items of one type with commas between them."""
