"""The models of requests and responses about webhooks."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, model_validator

from botpool.api.patterns import LINK, PRINTABLE, TENANT
from botpool.api.schemas import Model, NextCursor, RequestModel, WholeNumber
from botpool.domain import webhooks
from botpool.domain.webhook_events import EventType
from botpool.domain.webhooks import DeliveryStatus

_MAX_URL = 2048
_MAX_OVERLAP_MS = 30 * 86_400_000
_DAY_MS = 86_400_000
_EVENT_ID = r"^evt_[0-9]{1,19}$"


def _without_password(url: str) -> str:
    if "@" in url.partition("://")[2].partition("/")[0] or "#" in url:
        raise ValueError("should have no user, no password and no fragment")
    return url


class WebhookCreate(RequestModel):
    url: Annotated[
        str,
        StringConstraints(max_length=_MAX_URL, pattern=LINK),
        AfterValidator(_without_password),
        Field(
            description="The address that gets the events: http or https, without a password.",
            examples=["https://example.org/hooks/botpool"],
        ),
    ]
    events: Annotated[
        list[EventType] | None,
        Field(min_length=1, max_length=100, description="The types of events; absent: all."),
    ] = None
    description: Annotated[str, StringConstraints(max_length=200, pattern=PRINTABLE)] = ""
    tenant: Annotated[
        str | None,
        StringConstraints(pattern=TENANT),
        Field(
            description="The only tenant whose events the webhook gets. A key of scope `user` can "
            "name only its own, which is its default; the default of operators is all tenants.",
        ),
    ] = None


class WebhookRotation(RequestModel):
    overlap_ms: Annotated[
        int,
        Field(
            strict=True,
            ge=0,
            le=_MAX_OVERLAP_MS,
            description="How long the former secret signs, too.",
        ),
        WholeNumber,
    ] = _DAY_MS


class WebhookTest(RequestModel):
    event: Annotated[EventType, Field(description="The type whose example is sent.")] = (
        EventType.BOT_DONE
    )


class WebhookReplay(RequestModel):
    """Which events to deliver again. Without fields: all deliveries that failed."""

    event_id: Annotated[
        str | None,
        StringConstraints(pattern=_EVENT_ID),
        Field(description="One event, by its `webhook-id`.", examples=["evt_4711"]),
    ] = None
    since: Annotated[
        AwareDatetime | None,
        Field(description="All events since this time, as far as history goes."),
    ] = None

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.event_id is not None and self.since is not None:
            raise ValueError("give eventId or since, not both")
        return self


class Webhook(Model):
    id: int
    url: str
    description: str
    events: Annotated[list[EventType] | None, Field(description="Null: all types.")]
    tenant: Annotated[str | None, Field(description="Null: all tenants.")]
    status: Annotated[
        Literal["active", "failing", "disabled"],
        Field(description="`failing`: no attempt succeeded since `failingSince`."),
    ]
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    last_delivered_at: datetime | None
    paused_until: Annotated[
        datetime | None,
        Field(description="No attempt before: the endpoint asked for it, or failed repeatedly."),
    ]
    overlap_ends_at: Annotated[
        datetime | None, Field(description="Until then the former secret signs, too.")
    ]
    pending: Annotated[int, Field(description="Deliveries that are not finished.")]
    failed: Annotated[int, Field(description="Deliveries without an attempt left.")]
    created_at: datetime
    created_by: Annotated[str, Field(description="The name of the key that created it.")]

    @classmethod
    def shown(cls, webhook: webhooks.Webhook) -> Self:
        if webhook.disabled_at is not None:
            status = "disabled"
        else:
            status = "active" if webhook.failing_since is None else "failing"
        values = {name: getattr(webhook, name) for name in cls.model_fields if name != "status"}
        return cls.model_validate(values | {"status": status})


class WebhookResponse(Model):
    webhook: Webhook


class NewWebhook(Model):
    """A webhook with its secret, which no later response contains."""

    webhook: Webhook
    secret: Annotated[str, Field(description="Verifies signatures.", examples=["whsec_MfKQ9r8G"])]


class Webhooks(Model):
    webhooks: list[Webhook]


class DeliveryRequest(Model):
    method: Literal["POST"] = "POST"
    url: str
    headers: Annotated[
        dict[str, str], Field(description="Without the timestamp and the signatures.")
    ]
    body: Annotated[dict[str, Any], Field(description="The event.")]


class DeliveryResponse(Model):
    status: int
    body: Annotated[str, Field(description="The first 2 KiB.")]


class Delivery(Model):
    """An event for a webhook, with its last attempt."""

    id: int
    event_id: Annotated[str, Field(description="The `webhook-id`: the same in all attempts.")]
    type: EventType
    bot_id: int | None
    status: DeliveryStatus
    attempts: int
    created_at: datetime
    last_attempt_at: datetime | None
    next_attempt_at: Annotated[
        datetime | None,
        Field(description="Null when finished, and while an earlier event of the bot is pending."),
    ]
    duration_ms: int | None
    request: DeliveryRequest
    response: Annotated[DeliveryResponse | None, Field(description="Null without an answer.")]
    problem: Annotated[str | None, Field(description="Why the last attempt failed.")]

    @classmethod
    def shown(cls, delivery: webhooks.Delivery) -> Self:
        response = (
            None
            if delivery.response_status is None
            else DeliveryResponse(
                status=delivery.response_status, body=delivery.response_body or ""
            )
        )
        names = set(cls.model_fields) - {"request", "response", "type"}
        return cls.model_validate(
            {name: getattr(delivery, name) for name in names}
            | {
                "type": EventType(delivery.type),
                "request": DeliveryRequest(
                    url=delivery.url,
                    headers={
                        "content-type": "application/json",
                        "webhook-id": delivery.event_id,
                    },
                    body=json.loads(delivery.payload),
                ),
                "response": response,
            }
        )


class DeliveryResult(Model):
    delivery: Delivery


class Deliveries(Model):
    """A page of deliveries, newest first."""

    deliveries: list[Delivery]
    next_cursor: NextCursor = None
