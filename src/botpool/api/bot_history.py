"""Routes for the past of a bot: events, timeline and container output."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from botpool.api import schemas
from botpool.api.auth import Service, User
from botpool.api.log_stream import start_log_stream
from botpool.api.parameters import BotPath, DecimalDigits
from botpool.api.problems import error_responses
from botpool.domain.ids import BotId

_ERRORS = error_responses(401, 403, 404, 422, 503)

routes = APIRouter(prefix="/v1/bots/{id}", tags=["users"])


@routes.get(
    "/logs",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **_ERRORS},
)
async def bot_logs(
    replica: Service,
    _: User,
    bot_id: BotPath,
    tail: Annotated[
        int | None,
        Query(ge=0, le=100_000, description="Number of last lines; default: all."),
        DecimalDigits,
    ] = None,
    follow: Annotated[bool, Query(description="Stream until the container ends.")] = False,
) -> Response:
    """Get the output of the bot's container as text."""
    lines = await replica.queries.bot_logs(BotId(bot_id), tail=tail, follow=follow)
    return StreamingResponse(await start_log_stream(lines), media_type="text/plain; charset=utf-8")


@routes.get("/events", responses=_ERRORS)
async def bot_events(replica: Service, _: User, bot_id: BotPath) -> schemas.Events:
    """Get the bot's history, oldest first."""
    rows = await replica.queries.bot_history(BotId(bot_id))
    return schemas.Events(events=[schemas.Event.model_validate(row) for row in rows])


@routes.get("/timeline", responses=_ERRORS)
async def bot_timeline(replica: Service, _: User, bot_id: BotPath) -> schemas.Timeline:
    """Get the phases of the bot, oldest first. Every deployment attempt has its own phases."""
    bars = await replica.queries.bot_timeline(BotId(bot_id))
    return schemas.Timeline(phases=[schemas.TimelineBar.model_validate(bar) for bar in bars])
