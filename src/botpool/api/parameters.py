"""Parameters that several routes share."""

import re
from typing import Annotated

from fastapi import Path, Query
from pydantic import BeforeValidator

from botpool.api.patterns import PLATFORM

_MAX_ID = 2**63 - 1


def _is_written_plainly(value: object) -> object:
    """Digits, and nothing else that pydantic reads as a number: ` 1`, `+1`, `1.0`, `1_0`."""
    if isinstance(value, str) and not re.fullmatch("-?[0-9]+", value, re.ASCII):
        raise ValueError("should be a whole number")
    return value


WrittenPlainly = BeforeValidator(_is_written_plainly)
"""Stands after the bounds, which would otherwise be missing from the document."""

BotPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID), WrittenPlainly]
SlotPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID), WrittenPlainly]
KeyPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID), WrittenPlainly]
PoolPath = Annotated[str, Path(alias="platform", pattern=PLATFORM)]
PlatformQuery = Annotated[str | None, Query(pattern=PLATFORM)]
