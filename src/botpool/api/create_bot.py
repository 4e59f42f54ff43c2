"""`POST /v1/bots`: admit a bot.

Many clients call this route at the same second, so a plain route of Starlette serves it, which
costs less than FastAPI's, and its endpoint validates the body, the key and the headers itself.
"""

import hashlib
import json
import random
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, StringConstraints
from structlog.contextvars import bind_contextvars, reset_contextvars

from botpool.api import schemas
from botpool.api.access import OWN_BOTS, SCOPE
from botpool.api.auth import RequireScope, replica_of
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.bot_response import bot_response
from botpool.api.correlation import HEADER, MAX_LENGTH
from botpool.api.json_body import described_headers, read_json, validate_body, validate_headers
from botpool.api.patterns import VISIBLE
from botpool.api.problems import error_responses
from botpool.backends.protocol import Health
from botpool.domain.bots import BotRequest, IdempotencyKey
from botpool.domain.callers import Caller
from botpool.domain.errors import MeetingHostRefused, PriorityNotAllowed, UnknownPool
from botpool.domain.ids import PoolName
from botpool.domain.limits import tenant_posts
from botpool.domain.meeting_hosts import is_allowed
from botpool.domain.meeting_links import pool_name_of
from botpool.domain.trace_context import valid_traceparent

_require_user = RequireScope("user")


class BotHeaders(BaseModel):
    """The optional headers of a request for a bot."""

    idempotency_key: (
        Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=VISIBLE)] | None
    ) = Field(
        alias="Idempotency-Key",
        title="Idempotency-Key",
        description="A repeated request with the same key and body returns the first bot.",
    )
    correlation_id: (
        Annotated[str, StringConstraints(min_length=1, max_length=MAX_LENGTH, pattern=VISIBLE)]
        | None
    ) = Field(
        alias="X-Correlation-ID",
        title="X-Correlation-ID",
        description="The bot's correlation id. Default: the id of its trace, else generated.",
    )
    traceparent: str | None = Field(
        alias="traceparent",
        title="traceparent",
        description="The trace that the bot continues (W3C). An invalid value is ignored.",
    )


def router(
    bot_create: type[schemas.BotCreate],
    backends: Mapping[str, str],
    allowed_hosts: Mapping[str, tuple[str, ...]],
) -> APIRouter:
    """Create the route with the request model, and by pool name its backend and allowed hosts."""
    pool_names = tuple(backends)
    routes = APIRouter(prefix="/v1", tags=["users"], route_class=AuthenticatedRoute)

    async def create_bot(request: Request) -> Response:
        """Send a bot into a meeting. The response does not wait for the backend."""
        caller = await _require_user(request)
        replica = replica_of(request)
        await replica.token_buckets.take(f"key:{caller.key_id}", replica.policy.limits.posts)
        if (quota := caller.posts_per_minute) is not None:
            await replica.token_buckets.take(f"tenant:{caller.tenant_id}", tenant_posts(quota))
        body = validate_body(bot_create, await read_json(request))
        if body.priority < caller.min_priority:
            raise PriorityNotAllowed(body.priority, caller.min_priority)
        headers = validate_headers(BotHeaders, request)
        idempotency = None
        if headers.idempotency_key is not None:
            idempotency = IdempotencyKey(key=headers.idempotency_key, body_hash=_hash_body(body))
        bot_request = _to_bot_request(body, caller, headers, pool_names)
        _check_host(bot_request, allowed_hosts[bot_request.pool_name])
        backend = backends[bot_request.pool_name]
        warning = _warning(replica_of(request).readiness.known_health(backend), backend, caller)
        return await _admit(request, bot_request, idempotency, warning)

    # The first route serves the requests. The second, which no request reaches, describes them in
    # the OpenAPI document.
    routes.add_route("/v1/bots", create_bot, methods=["POST"], include_in_schema=False)
    schema = {"$ref": f"#/components/schemas/{bot_create.__name__}"}
    routes.add_api_route(
        "/bots",
        create_bot,
        methods=["POST"],
        status_code=201,
        response_model=schemas.BotResponse,
        responses={
            200: {
                "model": schemas.BotResponse,
                "description": "A repeated request: the bot of the first one.",
            },
            **error_responses(400, 401, 403, 409, 413, 415, 422, 429, 503),
        },
        openapi_extra={
            "parameters": described_headers(BotHeaders),
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "security": [{_require_user.scheme_name: []}],
            SCOPE: _require_user.needed,
            **OWN_BOTS,
        },
    )
    return routes


async def _admit(
    request: Request,
    bot_request: BotRequest,
    idempotency: IdempotencyKey | None,
    warning: str | None,
) -> Response:
    bound = bind_contextvars(correlation_id=bot_request.correlation_id)
    if bot_request.traceparent is not None:
        trace_id = bot_request.traceparent.split("-")[1]
        bound = {**bound, **bind_contextvars(trace_id=trace_id)}
    try:
        replica = replica_of(request)
        if bot_request.join_at is None:
            admitted = await replica.admission.admit(bot_request, idempotency)
        else:
            admitted = await replica.bookings.book(bot_request, idempotency)
    finally:
        reset_contextvars(**bound)
    headers = {HEADER: admitted.bot.correlation_id}
    if admitted.replayed:
        headers["Idempotency-Replayed"] = "true"
    status = 200 if admitted.replayed else 201
    return bot_response(admitted, status=status, headers=headers, warning=warning)


def _warning(health: Health | None, backend: str, caller: Caller) -> str | None:
    """Describe the failure of the pool's backend; only operators see its address."""
    if health is None or health.ok:
        return None
    address = f" ({health.address})" if health.address and caller.has_scope("operator") else ""
    return f"The backend {backend} of this pool fails: {health.detail}{address}"


def _to_bot_request(
    body: schemas.BotCreate,
    caller: Caller,
    headers: BotHeaders,
    pool_names: tuple[str, ...],
) -> BotRequest:
    traceparent = valid_traceparent(headers.traceparent)
    trace_id = None if traceparent is None else traceparent.split("-")[1]
    return BotRequest(
        caller=caller,
        pool_name=_choose_pool(body, pool_names),
        meeting_url=body.meeting_url,
        bot_display_name=body.bot_display_name,
        bot_data=body.bot_data,
        priority=body.priority,
        queue_timeout_ms=body.queue_timeout_ms,
        correlation_id=headers.correlation_id or trace_id or _new_correlation_id(),
        traceparent=traceparent,
        join_at=body.join_at,
        expected_duration_ms=body.expected_duration_ms,
        require_reservation=body.require_reservation,
    )


def _new_correlation_id() -> str:
    """Return a random id. It is no secret, so it needs no system call."""
    return f"{random.getrandbits(128):032x}"


def _choose_pool(body: schemas.BotCreate, pool_names: tuple[str, ...]) -> PoolName:
    name = body.platform or pool_name_of(body.meeting_url)
    if name is None:
        raise UnknownPool(
            "The pool cannot be derived from this meetingUrl. Name it in 'platform'.", pool_names
        )
    if name not in pool_names:
        raise UnknownPool(f"There is no pool '{name}' in the settings.", pool_names)
    return PoolName(name)


def _check_host(request: BotRequest, allowed_hosts: tuple[str, ...]) -> None:
    if not is_allowed(request.meeting_url, allowed_hosts):
        raise MeetingHostRefused(request.pool_name, allowed_hosts)


def _hash_body(body: schemas.BotCreate) -> bytes:
    """Hash the validated body, so that the same request hashes alike however it was written."""
    text = json.dumps(body.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).digest()
