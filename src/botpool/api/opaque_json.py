"""Validates that caller-supplied JSON can be stored and returned."""

import json
import re
from typing import Any

from pydantic import AfterValidator

# Pydantic cannot serialize much deeper values, so deeper ones could not be returned.
_MAX_DEPTH = 64
_TOO_DEEP = f"should be nested at most {_MAX_DEPTH} deep"

# After an even number of backslashes; after an odd number this is the plain text `\u0000`.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def storable_up_to(limit: int) -> AfterValidator:
    """Validate an object of at most `limit` bytes, measured as compact UTF-8."""
    return AfterValidator(lambda data: require_storable(data, limit))


def require_storable(data: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the object, or raise `ValueError` if it is too large or cannot be stored."""
    try:
        text = _COMPACT.encode(data)
        size = len(text.encode())
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        raise ValueError("should be plain JSON: no NaN, no infinity, no broken Unicode") from None
    if size > limit:
        raise ValueError(f"should be at most {limit} bytes of JSON; it has {size}")
    if _is_deeper(data, _MAX_DEPTH):
        raise ValueError(_TOO_DEEP)
    if _ESCAPED_NUL.search(text):
        raise ValueError("should have no NUL characters")
    return data


def _is_deeper(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(item, depth - 1) for item in items)
