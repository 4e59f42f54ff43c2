"""For users: send a bot, see it, ask it to leave."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from botpool.api import create_bot, schemas
from botpool.api.auth import Service, User
from botpool.api.bot_response import bot_response
from botpool.api.parameters import BotPath, PlatformQuery, WrittenPlainly
from botpool.api.patterns import CURSOR, NO_NUL
from botpool.api.problems import described
from botpool.domain.ids import BotId
from botpool.domain.states import BotStatus

_ERRORS = described(401, 403, 404, 422, 503)
_MAX_SEARCH = 200


def router(bot_create: type[schemas.BotCreate], platforms: tuple[str, ...]) -> APIRouter:
    """The users' routes, with the request model and the pools of this installation."""
    routes = APIRouter(prefix="/v1", tags=["users"])

    create_bot.add_route(routes, bot_create, platforms)

    @routes.get("/bots", responses=described(401, 403, 422, 503))
    async def list_bots(
        replica: Service,
        _: User,
        status: BotStatus | None = None,
        platform: PlatformQuery = None,
        search: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=_MAX_SEARCH,
                pattern=NO_NUL,
                description="Text within the link, the name or the correlation id; or a number.",
            ),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=500), WrittenPlainly] = 50,
        cursor: Annotated[str | None, Query(pattern=CURSOR)] = None,
    ) -> schemas.BotPage:
        """Bots, newest first. Follow `nextCursor` for more.

        A search looks through 100,000 bots at a time: a page of it may be short, or empty, and
        still have a `nextCursor`.
        """
        page = await replica.queries.bots(
            status=status,
            pool_name=platform,
            search=search,
            before=BotId(int(cursor)) if cursor else None,
            limit=limit,
        )
        return schemas.BotPage(
            bots=[schemas.Bot.of(bot) for bot in page.bots],
            next_cursor=None if page.before is None else str(page.before),
        )

    @routes.get("/bots/{id}", response_model=schemas.BotAnswer, responses=_ERRORS)
    async def get_bot(replica: Service, _: User, bot_id: BotPath) -> Response:
        """A bot as it is now, with its place in the queue while it waits."""
        return bot_response(await replica.admission.find(BotId(bot_id)), status=200)

    @routes.delete(
        "/bots/{id}",
        status_code=202,
        response_model=schemas.BotAnswer,
        responses={
            200: {"model": schemas.BotAnswer, "description": "It had ended already."},
            **_ERRORS,
        },
    )
    async def stop_bot(replica: Service, _: User, bot_id: BotPath) -> Response:
        """Stop a bot: cancelled while it waits or deploys, asked to leave once it runs."""
        stopped, changed = await replica.bot_stopper.stop(BotId(bot_id))
        return bot_response(stopped, status=202 if changed else 200)

    @routes.get("/queue", responses=described(401, 403, 422, 503))
    async def queue(replica: Service, _: User, platform: PlatformQuery = None) -> schemas.Queue:
        """Who waits, in the order of service; the first thousand."""
        entries = await replica.queries.queue(platform)
        return schemas.Queue(
            queue=[
                schemas.QueueEntry(
                    bot_id=entry.bot_id,
                    pool_name=entry.pool_name,
                    priority=entry.priority,
                    position=entry.position,
                    queued_at=entry.queued_at,
                    timeout_at=entry.timeout_at,
                    estimated_wait_ms=wait_ms,
                )
                for entry, wait_ms in entries
            ]
        )

    return routes
