"""Values in superjson 2: JSON, and tags for what JSON cannot express, such as dates.

Both `null` and `undefined` are None here. Only an answer distinguishes them, with `UNDEFINED`.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

UNDEFINED: Any = object()
"""JavaScript's `undefined` in an answer."""


class BrokenSuperjson(ValueError):
    """The input is no value of superjson."""


def encode(value: Any) -> dict[str, Any]:
    """Return a value with its tags, as superjson's `serialize` does."""
    tags = dict(_tags(value, ()))
    envelope: dict[str, Any] = {"json": _plain(value)}
    if () in tags:
        envelope["meta"] = {"values": [tags[()]], "v": 1}
    elif tags:
        values = {".".join(path): [tag] for path, tag in tags.items()}
        envelope["meta"] = {"values": values, "v": 1}
    return envelope


def _tags(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if value is UNDEFINED:
        yield path, "undefined"
    elif isinstance(value, datetime):
        yield path, "Date"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            # A dot separates the parts of a path.
            yield from _tags(item, (*path, key.replace("\\", "\\\\").replace(".", "\\.")))


def _plain(value: Any) -> Any:
    if value is UNDEFINED:
        return None
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def decode(envelope: Any) -> Any:
    """Return the value of superjson's `{json, meta}`.

    The tags are checked but need no treatment: a tagged date is text in ISO format, and a tagged
    `undefined` is null.
    """
    if not isinstance(envelope, dict) or "json" not in envelope:
        raise BrokenSuperjson("the input is no superjson value")
    value, meta = envelope["json"], envelope.get("meta")
    if meta is None:
        return value
    tags = meta.get("values", {}) if isinstance(meta, dict) else None
    if isinstance(tags, list):
        tags = {"": tags}
    if not isinstance(tags, dict):
        raise BrokenSuperjson("the meta data of the input is not superjson's")
    for path, tag in tags.items():
        if not isinstance(tag, list) or not tag:
            raise BrokenSuperjson(f"the tag of {path} is not superjson's")
        if tag[0] == "Date":
            _require_date(path, _at(value, path))
    return value


def parse(text: str | bytes) -> Any:
    """Parse JSON; `BrokenSuperjson` if it is none, or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenSuperjson("the input is not JSON") from error


def _at(value: Any, path: str) -> Any:
    for part in path.split(".") if path else ():
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            raise BrokenSuperjson(f"the input has no {path}") from None
    return value


def _require_date(path: str, value: Any) -> None:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise BrokenSuperjson(f"{path} is no date") from None
