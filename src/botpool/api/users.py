"""Routes for users: read and stop bots, and read the queue. `create_bot` creates them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from botpool.api import schemas
from botpool.api.access import OWN_BOTS
from botpool.api.auth import Service, User
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.bot_response import bot_response
from botpool.api.paging import Limit, PageCursor, decode_cursor, encode_cursor
from botpool.api.parameters import BotPath, ContainerQuery, PlatformQuery, TenantQuery
from botpool.api.patterns import NO_NUL
from botpool.api.problems import error_responses
from botpool.domain.errors import PriorityNotAllowed
from botpool.domain.pages import AssignmentPosition, BotPosition, Page, QueuePosition
from botpool.domain.states import BotStatus
from botpool.engine.admission.bookings import BotUpdate

_ERRORS = error_responses(401, 403, 404, 422, 503)
_MAX_SEARCH = 200

Search = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=_MAX_SEARCH,
        pattern=NO_NUL,
        description="Text in the meeting link, the name or the correlation id; or a bot id.",
    ),
]
SlotNameQuery = Annotated[
    str | None,
    Query(
        alias="slotName",
        min_length=1,
        max_length=100,
        pattern=NO_NUL,
        description="Only bots of the slot that has this name now.",
    ),
]
routes = APIRouter(prefix="/v1", tags=["users"], route_class=AuthenticatedRoute)


@routes.get("/bots", responses=error_responses(401, 403, 422, 503), openapi_extra=OWN_BOTS)
async def list_bots(
    replica: Service,
    caller: User,
    status: BotStatus | None = None,
    platform: PlatformQuery = None,
    search: Search = None,
    container_id: ContainerQuery = None,
    slot_name: SlotNameQuery = None,
    tenant: TenantQuery = None,
    limit: Limit = 50,
    cursor: PageCursor = None,
) -> schemas.BotPage:
    """List bots, newest first. `nextCursor` leads to the next page.

    `containerId` and `slotName` list the bots that ran there: the bot that is assigned now, then
    its predecessors, by assignment.

    A key of scope `user` gets the bots of its own tenant.

    A search, and a list of the default tenant beside other tenants, reads 100,000 bots per request,
    so a page can be short or empty and still have a `nextCursor`.
    """
    tenant_id = await replica.tenants.visible_to(caller, tenant)
    if container_id is not None or slot_name is not None:
        page: Page[Any, Any] = await replica.queries.bots_in(
            container_id=container_id,
            slot_name=slot_name,
            status=status,
            pool_name=platform,
            tenant_id=tenant_id,
            search=search,
            before=decode_cursor(AssignmentPosition, cursor),
            limit=limit,
        )
    else:
        page = await replica.queries.bots(
            status=status,
            pool_name=platform,
            tenant_id=tenant_id,
            search=search,
            before=decode_cursor(BotPosition, cursor),
            limit=limit,
        )
    return schemas.BotPage(
        bots=[schemas.Bot.of(bot) for bot in page.items], next_cursor=encode_cursor(page.next)
    )


@routes.get(
    "/bots/{id}",
    response_model=schemas.BotResponse,
    responses=_ERRORS,
    openapi_extra=OWN_BOTS,
)
async def get_bot(replica: Service, caller: User, bot_id: BotPath) -> Response:
    """Get a bot in its current state, with its queue position while it is queued."""
    found = await replica.admission.find(bot_id, tenant_id=caller.visible_tenant)
    return bot_response(found, status=200)


@routes.patch(
    "/bots/{id}",
    response_model=schemas.BotResponse,
    responses=error_responses(400, 401, 403, 404, 409, 413, 415, 422, 503),
    openapi_extra=OWN_BOTS,
)
async def update_bot(
    replica: Service, caller: User, bot_id: BotPath, body: schemas.BotChanges
) -> Response:
    """Change a bot before its start. A changed `joinAt` changes the booking too.

    `priority` and `botDisplayName` can change until the bot has a slot, `joinAt` until it joins.
    After that: 409, which says what happened.
    """
    if body.priority is not None and body.priority < caller.min_priority:
        raise PriorityNotAllowed(body.priority, caller.min_priority)
    changes = BotUpdate(
        join_at=body.join_at, priority=body.priority, bot_display_name=body.bot_display_name
    )
    updated = await replica.bookings.update(bot_id, changes, caller)
    return bot_response(updated, status=200)


@routes.delete(
    "/bots/{id}",
    status_code=202,
    response_model=schemas.BotResponse,
    responses={
        200: {"model": schemas.BotResponse, "description": "The bot had already ended."},
        **_ERRORS,
    },
    openapi_extra=OWN_BOTS,
)
async def stop_bot(replica: Service, caller: User, bot_id: BotPath) -> Response:
    """Stop a bot. A queued or deploying bot is cancelled; a running bot is asked to leave."""
    stopped, changed = await replica.bot_stopper.stop(bot_id, caller)
    return bot_response(stopped, status=202 if changed else 200)


@routes.get("/queue", responses=error_responses(401, 403, 422, 503), openapi_extra=OWN_BOTS)
async def queue(
    replica: Service,
    caller: User,
    platform: PlatformQuery = None,
    tenant: TenantQuery = None,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> schemas.Queue:
    """List queued bots in the order of service. `nextCursor` leads to the next page.

    A key of scope `user` gets the bots of its own tenant.
    """
    page = await replica.queries.queue(
        platform,
        tenant_id=await replica.tenants.visible_to(caller, tenant),
        after=decode_cursor(QueuePosition, cursor),
        limit=limit,
    )
    return schemas.Queue(
        queue=[
            schemas.QueueEntry.of(each, estimated_wait_ms=wait_ms) for each, wait_ms in page.items
        ],
        next_cursor=encode_cursor(page.next),
    )
