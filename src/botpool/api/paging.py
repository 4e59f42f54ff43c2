"""The parameters `limit` and `cursor` of lists. A cursor is the text of a position in a list."""

import base64
import json
import re
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import Query
from fastapi.exceptions import RequestValidationError

from botpool.api.parameters import DecimalDigits
from botpool.api.patterns import CURSOR, DESCRIPTIONS, PLATFORM
from botpool.domain.pages import Position

MAX_LIMIT = 500
_INT64 = 2**63

P = TypeVar("P", bound=Position)

Limit = Annotated[
    int, Query(ge=1, le=MAX_LIMIT, description="Records per page, at most."), DecimalDigits
]
PageCursor = Annotated[
    str | None, Query(pattern=CURSOR, description="`nextCursor` of the previous page.")
]


def encode_cursor(position: Position | None) -> str | None:
    """Return a position as opaque text; None for the last page."""
    if position is None:
        return None
    text = json.dumps([type(position).__name__, *position], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: type[P], cursor: str | None) -> P | None:
    """Return the position in the text, or raise a validation error for a cursor of another list."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        name, *values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        raise _invalid(cursor) from None
    hints = [_plain(hint) for hint in get_type_hints(kind).values()]
    if name != kind.__name__ or not all(map(_is_valid, values, hints)) or len(values) != len(hints):
        raise _invalid(cursor)
    return kind(*values)


def _plain(hint: Any) -> type:
    """Return the type below a `NewType`."""
    plain: type = getattr(hint, "__supertype__", hint)
    return plain


def _is_valid(value: object, kind: type) -> bool:
    if type(value) is not kind:
        return False
    if isinstance(value, int):
        return -_INT64 < value < _INT64
    return bool(re.fullmatch(PLATFORM, str(value)))


def _invalid(cursor: str) -> RequestValidationError:
    return RequestValidationError(
        [
            {
                "type": "value_error",
                "loc": ("query", "cursor"),
                "msg": DESCRIPTIONS[CURSOR],
                "input": cursor,
            }
        ]
    )
