"""Parameters that several routes share."""

from typing import Annotated

from fastapi import Path, Query

from botpool.api.schemas import PLATFORM

_MAX_ID = 2**63 - 1

BotPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID)]
SlotPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID)]
KeyPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID)]
PoolPath = Annotated[str, Path(alias="platform", pattern=PLATFORM)]
PlatformQuery = Annotated[str | None, Query(pattern=PLATFORM)]
