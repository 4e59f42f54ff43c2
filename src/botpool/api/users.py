"""For users: send a bot, see it, ask it to leave."""

import hashlib
import json
import random
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import TypeAdapter
from structlog.contextvars import bind_contextvars, reset_contextvars

from botpool.api import schemas
from botpool.api.auth import Scope, Service, User, replica_of
from botpool.api.correlation import HEADER, MAX_LENGTH
from botpool.api.direct_route import direct_route
from botpool.api.optional_header import OptionalHeader
from botpool.api.parameters import BotPath, PlatformQuery, WrittenPlainly
from botpool.api.patterns import CURSOR, NO_NUL
from botpool.api.problems import described
from botpool.domain.errors import UnknownPool
from botpool.domain.ids import BotId, PoolName
from botpool.domain.meeting_links import pool_name_of
from botpool.domain.records import AdmittedBot, BotRequest, IdempotencyKey
from botpool.domain.states import BotStatus

_ERRORS = described(401, 403, 404, 422, 503)
_MAX_SEARCH = 200
_IDEMPOTENCY = OptionalHeader("Idempotency-Key", max_length=255)
_CORRELATION = OptionalHeader(HEADER, max_length=MAX_LENGTH)
_SHOWN = TypeAdapter(dict[str, Any])


def router(bot_create: type[schemas.BotCreate], platforms: tuple[str, ...]) -> APIRouter:
    """The users' routes, with the request model and the pools of this installation."""
    routes = APIRouter(prefix="/v1", tags=["users"])

    async def create_bot(
        sent: Request,
        key: User,
        body: bot_create,  # type: ignore[valid-type]
    ) -> Response:
        """Send a bot into a meeting. The reply never waits for the platform."""
        wanted: schemas.BotCreate = body
        idempotency_key = _IDEMPOTENCY.of(sent)
        request = BotRequest(
            pool_name=_choose_platform(wanted, platforms),
            meeting_url=wanted.meeting_url,
            bot_display_name=wanted.bot_display_name,
            bot_data=wanted.bot_data,
            priority=wanted.priority,
            queue_timeout_ms=wanted.queue_timeout_ms,
            correlation_id=_CORRELATION.of(sent) or _new_correlation_id(),
        )
        mark = None
        if idempotency_key is not None:
            mark = IdempotencyKey(
                api_key_id=key.id, key=idempotency_key, body_hash=_hash_body(wanted)
            )
        # The caller's own is bound already; one that was made here is bound for the same reason.
        bound = bind_contextvars(correlation_id=request.correlation_id)
        try:
            admitted = await replica_of(sent).admission.admit(request, mark)
        finally:
            reset_contextvars(**bound)
        headers = {"X-Correlation-ID": admitted.bot.correlation_id}
        if admitted.replayed:
            headers["Idempotency-Replayed"] = "true"
        return _answer(admitted, status=200 if admitted.replayed else 201, headers=headers)

    routes.add_api_route(
        "/bots",
        create_bot,
        methods=["POST"],
        status_code=201,
        response_model=schemas.BotAnswer,
        responses={
            200: {"model": schemas.BotAnswer, "description": "The same request again: its bot."},
            **described(400, 401, 403, 409, 413, 415, 422, 503),
        },
        openapi_extra={"parameters": [_IDEMPOTENCY.described(), _CORRELATION.described()]},
        route_class_override=direct_route(key_of=Scope("user"), model=bot_create),
    )

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
        return _answer(await replica.admission.find(BotId(bot_id)), status=200)

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
        return _answer(stopped, status=202 if changed else 200)

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


def _answer(
    admitted: AdmittedBot, *, status: int, headers: dict[str, str] | None = None
) -> Response:
    """Written from the record as it is: it came from the database, and needs no validation."""
    shown: dict[str, Any] = {"bot": schemas.bot_as_shown(admitted.bot)}
    if admitted.position is not None:
        shown["queuePosition"] = admitted.position
    if admitted.estimated_wait_ms is not None:
        shown["estimatedWaitMs"] = admitted.estimated_wait_ms
    return Response(
        _SHOWN.dump_json(shown), status_code=status, headers=headers, media_type="application/json"
    )


def _new_correlation_id() -> str:
    """No secret, so no call of the system for each."""
    return f"{random.getrandbits(128):032x}"


def _choose_platform(body: schemas.BotCreate, platforms: tuple[str, ...]) -> PoolName:
    platform = body.platform or pool_name_of(body.meeting_url)
    if platform is None:
        raise UnknownPool(
            "The platform cannot be read from this meetingUrl: name it in 'platform'.", platforms
        )
    if platform not in platforms:
        raise UnknownPool(f"There is no pool for '{platform}'.", platforms)
    return PoolName(platform)


def _hash_body(body: schemas.BotCreate) -> bytes:
    """What makes two requests the same: their validated contents, however they were written."""
    text = json.dumps(body.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).digest()
