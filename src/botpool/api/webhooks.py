"""Routes for webhooks. A key of scope `user` reaches the webhooks of its own tenant."""

from typing import Annotated

from fastapi import APIRouter, Query

from botpool.api import webhook_schemas as schemas
from botpool.api.access import OWN_BOTS
from botpool.api.auth import Service, User
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.paging import Limit, PageCursor, decode_cursor, encode_cursor
from botpool.api.parameters import WebhookPath
from botpool.api.problems import error_responses
from botpool.domain.pages import DeliveryPosition
from botpool.domain.webhooks import DeliveryStatus

routes = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=AuthenticatedRoute)


@routes.post(
    "",
    status_code=201,
    openapi_extra=OWN_BOTS,
    responses=error_responses(400, 401, 403, 409, 413, 415, 422, 503),
)
async def create_webhook(
    replica: Service, caller: User, body: schemas.WebhookCreate
) -> schemas.NewWebhook:
    """Create a webhook, which gets the events from now on. Only this response has the secret.

    Requests follow the Standard Webhooks specification.
    """
    webhook, secret = await replica.webhooks.create(
        caller,
        body.url,
        tenant_id=await replica.tenants.visible_to(caller, body.tenant),
        events=body.events,
        description=body.description,
    )
    return schemas.NewWebhook(webhook=schemas.Webhook.shown(webhook), secret=secret)


@routes.get("", openapi_extra=OWN_BOTS, responses=error_responses(401, 403, 503))
async def list_webhooks(replica: Service, caller: User) -> schemas.Webhooks:
    """List webhooks, without their secrets."""
    found = await replica.webhooks.list_visible(caller)
    return schemas.Webhooks(webhooks=[schemas.Webhook.shown(each) for each in found])


@routes.get("/{id}", openapi_extra=OWN_BOTS, responses=error_responses(401, 403, 404, 422, 503))
async def get_webhook(
    replica: Service, caller: User, webhook_id: WebhookPath
) -> schemas.WebhookResponse:
    """Return a webhook, without its secret."""
    found = await replica.webhooks.find(caller, webhook_id)
    return schemas.WebhookResponse(webhook=schemas.Webhook.shown(found))


@routes.delete("/{id}", openapi_extra=OWN_BOTS, responses=error_responses(401, 403, 404, 422, 503))
async def delete_webhook(
    replica: Service, caller: User, webhook_id: WebhookPath
) -> schemas.WebhookResponse:
    """Delete a webhook and its deliveries. A request in progress may still arrive."""
    deleted = await replica.webhooks.delete(caller, webhook_id)
    return schemas.WebhookResponse(webhook=schemas.Webhook.shown(deleted))


@routes.post(
    "/{id}/rotate",
    openapi_extra=OWN_BOTS,
    responses=error_responses(400, 401, 403, 404, 413, 415, 422, 503),
)
async def rotate_webhook(
    replica: Service,
    caller: User,
    webhook_id: WebhookPath,
    body: schemas.WebhookRotation | None = None,
) -> schemas.NewWebhook:
    """Give a webhook a new secret. Until the overlap ends, requests carry both signatures."""
    rotation = body or schemas.WebhookRotation()
    webhook, secret = await replica.webhooks.rotate(
        caller, webhook_id, overlap_s=rotation.overlap_ms / 1000
    )
    return schemas.NewWebhook(webhook=schemas.Webhook.shown(webhook), secret=secret)


@routes.post(
    "/{id}/test",
    openapi_extra=OWN_BOTS,
    responses=error_responses(400, 401, 403, 404, 413, 415, 422, 503),
)
async def test_webhook(
    replica: Service, caller: User, webhook_id: WebhookPath, body: schemas.WebhookTest | None = None
) -> schemas.DeliveryResult:
    """Send the example of an event once, now, and return the answer of the endpoint."""
    event = (body or schemas.WebhookTest()).event
    delivery = await replica.webhooks.test(caller, webhook_id, event)
    return schemas.DeliveryResult(delivery=schemas.Delivery.shown(delivery))


@routes.get(
    "/{id}/deliveries", openapi_extra=OWN_BOTS, responses=error_responses(401, 403, 404, 422, 503)
)
async def list_deliveries(
    replica: Service,
    caller: User,
    webhook_id: WebhookPath,
    status: Annotated[DeliveryStatus | None, Query()] = None,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> schemas.Deliveries:
    """List the deliveries of a webhook, newest first: request, answer and next attempt."""
    page = await replica.webhooks.deliveries(
        caller,
        webhook_id,
        status=status,
        before=decode_cursor(DeliveryPosition, cursor),
        limit=limit,
    )
    return schemas.Deliveries(
        deliveries=[schemas.Delivery.shown(each) for each in page.items],
        next_cursor=encode_cursor(page.next),
    )


@routes.post(
    "/{id}/replay",
    status_code=202,
    openapi_extra=OWN_BOTS,
    responses=error_responses(400, 401, 403, 404, 413, 415, 422, 503),
)
async def replay_webhook(
    replica: Service,
    caller: User,
    webhook_id: WebhookPath,
    body: schemas.WebhookReplay | None = None,
) -> schemas.WebhookResponse:
    """Deliver events again, with the same ids, and enable the webhook if it is disabled."""
    chosen = body or schemas.WebhookReplay()
    webhook = await replica.webhooks.replay(
        caller, webhook_id, event_id=chosen.event_id, since=chosen.since
    )
    return schemas.WebhookResponse(webhook=schemas.Webhook.shown(webhook))
