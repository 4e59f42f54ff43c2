"""Reading records from JSON. Fields that a newer server adds are ignored."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache, partial
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
FROM = {"json": "from"}
TO = {"json": "to"}
"""Metadata of fields that JSON names differently: `from` is a keyword of Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list; `next_cursor` continues it, and is None at the end."""

    items: list[T]
    next_cursor: str | None


def read(kind: type[T], body: Mapping[str, Any], **more: Any) -> T:
    """Build a record from a JSON object and the JSON values in `more`.

    Raises KeyError with the name of a missing field, and TypeError or ValueError for other JSON.
    """
    values = {}
    known = _fields(kind)  # type: ignore[arg-type] # a type is hashable
    for name, json_name, reader, required in known:
        if json_name in body:
            values[name] = reader(body[json_name])
        elif name in more:
            values[name] = reader(more[name])
        elif required:
            raise KeyError(json_name)
    return kind(**values)


@cache
def _fields(kind: type) -> list[tuple[str, str, Callable[[Any], Any], bool]]:
    """Name, JSON name, reader and necessity of each field of a record."""
    types = get_type_hints(kind)
    return [
        (
            each.name,
            each.metadata.get("json") or camel(each.name),
            _reader(types[each.name]),
            each.default is MISSING,
        )
        for each in fields(kind)
    ]


def _reader(annotation: Any) -> Callable[[Any], Any]:
    """Return the function that reads JSON as this type: times, records and lists of records."""
    inner = get_args(annotation)
    if NoneType in inner:
        reader = _reader(inner[0])
        return lambda value: None if value is None else reader(value)
    if annotation is datetime:
        return datetime.fromisoformat
    if isinstance(annotation, type) and is_dataclass(annotation):
        return partial(read, annotation)
    if get_origin(annotation) is list:
        item = _reader(inner[0])
        return lambda values: [item(value) for value in values]
    return lambda value: value


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
