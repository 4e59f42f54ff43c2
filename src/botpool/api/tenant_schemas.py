"""The models of requests and responses about tenants."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from botpool.api.patterns import TENANT
from botpool.api.schemas import Model, RequestModel, WholeNumber

_MAX_WEIGHT = 1000
_INT32 = 2**31 - 1

_Limit = Annotated[int | None, Field(strict=True, ge=0, le=_INT32), WholeNumber]


class TenantUpdate(RequestModel):
    """The weight and the quotas of a tenant. Null: no limit."""

    weight: Annotated[
        int,
        Field(
            strict=True,
            ge=1,
            le=_MAX_WEIGHT,
            description="The share of a pool when bots of several tenants wait.",
        ),
        WholeNumber,
    ] = 1
    max_live: Annotated[_Limit, Field(description="Bots in slots at the same time.")] = None
    max_queued: Annotated[_Limit, Field(description="Bots in queues at the same time.")] = None
    max_booked: Annotated[
        _Limit,
        Field(description="Slots reserved for the same time; at most `maxLive`, its default."),
    ] = None
    posts_per_minute: Annotated[
        int | None,
        Field(strict=True, ge=1, le=_INT32, description="Requests for bots in a minute."),
        WholeNumber,
    ] = None


class TenantCreate(TenantUpdate):
    name: Annotated[str, StringConstraints(pattern=TENANT), Field(examples=["sales"])]


class Tenant(Model):
    name: str
    weight: int
    max_live: Annotated[int | None, Field(description="Null: no limit.")]
    max_queued: Annotated[int | None, Field(description="Null: no limit.")]
    max_booked: Annotated[int | None, Field(description="Null: the limit is `maxLive`.")]
    posts_per_minute: Annotated[int | None, Field(description="Null: no limit.")]
    live: Annotated[int, Field(description="Bots in slots now.")]
    queued: Annotated[int, Field(description="Bots in queues now.")]
    created_at: datetime


class TenantResponse(Model):
    tenant: Tenant


class Tenants(Model):
    tenants: list[Tenant]
