"""Path and query parameters that several routes use."""

import re
from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import BeforeValidator

from botpool.api.correlation import HEADER, MAX_LENGTH
from botpool.api.patterns import NO_NUL, PLATFORM, TENANT, VISIBLE
from botpool.domain.ids import BotId, ContainerId, PoolName, SlotId

_MAX_ID = 2**63 - 1


def _require_decimal_digits(value: object) -> object:
    """Reject other text that pydantic reads as an integer: ` 1`, `+1`, `1.0`, `1_0`."""
    if isinstance(value, str) and not re.fullmatch("-?[0-9]+", value, re.ASCII):
        raise ValueError("should be a whole number")
    return value


DecimalDigits = BeforeValidator(_require_decimal_digits)
"""Must come after the bounds, which are otherwise missing from the OpenAPI document."""

BotPath = Annotated[BotId, Path(alias="id", ge=1, le=_MAX_ID), DecimalDigits]
SlotPath = Annotated[SlotId, Path(alias="id", ge=1, le=_MAX_ID), DecimalDigits]
KeyPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID), DecimalDigits]
WebhookPath = Annotated[int, Path(alias="id", ge=1, le=_MAX_ID), DecimalDigits]
PoolPath = Annotated[PoolName, Path(alias="platform", pattern=PLATFORM)]
PlatformQuery = Annotated[
    PoolName | None, Query(pattern=PLATFORM, description="Only this pool, by its name.")
]
TenantQuery = Annotated[
    str | None,
    Query(
        pattern=TENANT,
        description="Only bots of this tenant, by its name. A key of scope `user` can name only "
        "its own.",
    ),
]
TenantPath = Annotated[str, Path(alias="name", pattern=TENANT)]
ScreenshotPath = Annotated[int, Path(alias="number", ge=1, le=1000), DecimalDigits]
BotQuery = Annotated[BotId | None, Query(alias="botId", ge=1, le=_MAX_ID), DecimalDigits]
ContainerQuery = Annotated[
    ContainerId | None, Query(alias="containerId", min_length=1, max_length=255, pattern=NO_NUL)
]
CorrelationHeader = Annotated[
    str | None, Header(alias=HEADER, max_length=MAX_LENGTH, pattern=VISIBLE)
]
