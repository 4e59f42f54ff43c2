"""Reads the value of `--data`: a JSON object in the argument, in a file or on standard input."""

import json
import sys
from pathlib import Path
from typing import Any

from botpool.cli.errors import InvalidArgument


def read_bot_data(data: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(data), parse_constant=_refuse_constant)
    except OSError as error:
        raise InvalidArgument("--data", f"{data[1:]} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("--data", f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument("--data", """must be a JSON object, such as '{"staySeconds": 3}'""")
    return found


def _text(data: str) -> str:
    if data == "@-":
        return sys.stdin.read()
    return Path(data[1:]).read_text() if data.startswith("@") else data


def _refuse_constant(name: str) -> None:
    """Refuse NaN and the infinities, which Python accepts and JSON does not have."""
    raise ValueError(f"{name} is not a JSON value")
