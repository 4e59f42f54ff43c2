"""Routes for the past of a bot: events, timeline and container output."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from botpool.api import schemas
from botpool.api.auth import Service, User
from botpool.api.parameters import BotPath, DecimalDigits
from botpool.api.problems import error_responses
from botpool.domain.errors import BackendError

_FIRST_PART_TIMEOUT_S = 1.0

routes = APIRouter(
    prefix="/v1/bots/{id}", tags=["users"], responses=error_responses(401, 403, 404, 422, 503)
)


@routes.get(
    "/logs",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
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
    lines = await replica.queries.bot_logs(bot_id, tail=tail, follow=follow)
    return StreamingResponse(await _log_stream(lines), media_type="text/plain; charset=utf-8")


@routes.get("/events")
async def bot_events(replica: Service, _: User, bot_id: BotPath) -> schemas.Events:
    """Get the bot's history, oldest first."""
    rows = await replica.queries.bot_history(bot_id)
    return schemas.Events(events=[schemas.Event.of(row) for row in rows])


@routes.get("/timeline")
async def bot_timeline(replica: Service, _: User, bot_id: BotPath) -> schemas.Timeline:
    """Get the phases of the bot, oldest first. Every deployment attempt has its own phases."""
    bars = await replica.queries.bot_timeline(bot_id)
    return schemas.Timeline(phases=[schemas.TimelineBar.of(bar) for bar in bars])


async def _log_stream(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Wait shortly for the first part of the output, then return an iterator over all parts.

    A backend failure before the first part is raised, so that the response can be an error. A later
    failure becomes the last line of the output.
    """
    first = asyncio.ensure_future(anext(lines, b""))
    await asyncio.wait({first}, timeout=_FIRST_PART_TIMEOUT_S)
    if first.done():
        first.result()
    return _parts(first, lines)


async def _parts(first: asyncio.Future[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield await first
        async for part in rest:
            yield part
    except BackendError as error:
        yield f"[The backend failed while the output was read: {error}]\n".encode()
