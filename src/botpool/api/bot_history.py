"""Routes for the past of a bot: events, timeline and container output."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from botpool.api import schemas
from botpool.api.auth import OwnBot, Service, User, validity_check
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.log_stream import log_stream
from botpool.api.paging import Limit, PageCursor, decode_cursor, encode_cursor
from botpool.api.parameters import DecimalDigits
from botpool.api.problems import error_responses
from botpool.domain.pages import EventPosition, NewestEventPosition, Page

routes = APIRouter(
    prefix="/v1/bots/{id}",
    tags=["users"],
    route_class=AuthenticatedRoute,
    responses=error_responses(401, 403, 404, 422, 503),
)


@routes.get(
    "/logs",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def bot_logs(
    request: Request,
    replica: Service,
    caller: User,
    bot_id: OwnBot,
    tail: Annotated[
        int | None,
        Query(ge=0, le=100_000, description="Number of last lines; default: all."),
        DecimalDigits,
    ] = None,
    follow: Annotated[bool, Query(description="Stream until the container ends.")] = False,
) -> Response:
    """Get the output of the bot's container as text.

    The output ends when the key is revoked or expires, and when the session ends.
    """
    lines = await replica.queries.bot_logs(bot_id, tail=tail, follow=follow)
    parts = await log_stream(lines, validity_check(request, caller))
    return StreamingResponse(parts, media_type="text/plain; charset=utf-8")


@routes.get("/events")
async def bot_events(
    replica: Service,
    bot_id: OwnBot,
    order: Annotated[
        Literal["oldest", "newest"], Query(description="Which events come first.")
    ] = "oldest",
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> schemas.Events:
    """Get the bot's history. `nextCursor` leads to the next page.

    A page has at most 1 MiB of data, so it can be short and still have a `nextCursor`.
    """
    if order == "oldest":
        page: Page[Any, Any] = await replica.queries.bot_history(
            bot_id, after=decode_cursor(EventPosition, cursor), limit=limit
        )
    else:
        page = await replica.queries.newest_bot_history(
            bot_id, before=decode_cursor(NewestEventPosition, cursor), limit=limit
        )
    return schemas.Events(
        events=[schemas.Event.of(row) for row in page.items], next_cursor=encode_cursor(page.next)
    )


@routes.get("/timeline")
async def bot_timeline(replica: Service, bot_id: OwnBot) -> schemas.Timeline:
    """Get the phases of the bot, oldest first. Every deployment attempt has its own phases."""
    bars = await replica.queries.bot_timeline(bot_id)
    return schemas.Timeline(phases=[schemas.TimelineBar.of(bar) for bar in bars])
