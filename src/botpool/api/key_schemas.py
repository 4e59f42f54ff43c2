"""The models of API keys and of the dashboard's session."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from botpool.api.patterns import PRINTABLE, TENANT
from botpool.api.schemas import Model, RequestModel, WholeNumber
from botpool.domain.callers import DEFAULT_TENANT

_INT32 = 2**31 - 1
_MAX_LIFETIME_MS = 3_650 * 86_400_000
"""Ten years."""


class KeyCreate(RequestModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=PRINTABLE)]
    scope: Literal["user", "operator", "admin"] = "user"
    tenant: Annotated[
        str,
        StringConstraints(pattern=TENANT),
        Field(
            description="The owner of the bots that the key creates. A key of scope `user` sees "
            "only bots of its tenant."
        ),
    ] = DEFAULT_TENANT
    expires_in_ms: Annotated[
        int | None,
        Field(strict=True, ge=1, le=_MAX_LIFETIME_MS, description="Null: the key never expires."),
        WholeNumber,
    ] = None
    min_priority: Annotated[
        int | None,
        Field(
            strict=True,
            ge=-_INT32,
            le=_INT32,
            description="The lowest `priority` that requests with this key may have. Default: 0 "
            "for scope `user`, else none.",
        ),
        WholeNumber,
    ] = None


class KeyRotation(RequestModel):
    overlap_ms: Annotated[
        int,
        Field(
            strict=True,
            ge=0,
            le=_MAX_LIFETIME_MS,
            description="How long the former secret stays valid.",
        ),
        WholeNumber,
    ] = 86_400_000


class Key(Model):
    id: int
    name: str
    scope: str
    tenant: Annotated[str, Field(description="The owner of the bots that the key creates.")]
    prefix: Annotated[str, Field(description="The first characters of the key.")]
    created_at: datetime
    expires_at: Annotated[datetime | None, Field(description="Null: never.")]
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Field(description="Some minutes old at most.")]
    overlap_ends_at: Annotated[
        datetime | None,
        Field(description="After a rotation: until when the former secret is valid."),
    ]
    min_priority: Annotated[
        int, Field(description="The lowest `priority` that requests with this key may have.")
    ]


class NewKey(Model):
    key: Key
    secret: Annotated[str, Field(description="The key itself. Botpool does not show it again.")]


class Keys(Model):
    keys: list[Key]


class Session(Model):
    name: str
    scope: str
    tenant: str
