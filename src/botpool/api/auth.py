"""Authenticates users by API key or session cookie, and agents by their assignment's token.

Each is one dependency that reads the headers itself. FastAPI's own security classes, one for each
header that can carry a key, would cost much more time per request.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.openapi.models import APIKey, HTTPBearer
from fastapi.openapi.models import SecurityBase as Described
from fastapi.security.base import SecurityBase

from botpool.api.active_requests import count_agent_request
from botpool.api.connections import CallerKind, identify_connection
from botpool.api.correlation import correlation_of
from botpool.api.parameters import BotPath
from botpool.domain.audit import Actor, current_actor
from botpool.domain.callers import Caller
from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import AssignmentId, BotId, SlotId
from botpool.domain.tenants import ApiKey
from botpool.domain.tokens import assignment_of, run_of, standby_of
from botpool.engine.replica import Replica

COOKIE = "botpool_session"

KEY_SCHEMES: dict[str, Described] = {
    "key": HTTPBearer(description="An API key."),
    "keyHeader": APIKey.model_validate({"in": "header", "name": "X-API-Key"}),
    "session": APIKey.model_validate({"in": "cookie", "name": COOKIE}),
}
"""The ways to send a key, for the OpenAPI document. FastAPI itself knows only the first."""


def replica_of(request: Request) -> Replica:
    replica = request.app.state.replica
    assert isinstance(replica, Replica)
    return replica


async def _service(request: Request) -> Replica:
    """Asynchronous, because FastAPI runs synchronous dependencies in threads."""
    return replica_of(request)


Service = Annotated[Replica, Depends(_service)]


def session_id_of(request: Request) -> str | None:
    """The session in the request's cookie; None if the caller sent a key, which has precedence."""
    return None if _sent_key(request) is not None else request.cookies.get(COOKIE)


def validity_check(request: Request, caller: Caller) -> Callable[[], Awaitable[bool]]:
    """Return a check for long responses: is the key or session of the request still valid?"""
    replica, session_id = replica_of(request), session_id_of(request)

    async def is_valid() -> bool:
        if session_id is not None:
            return await replica.sessions.find(session_id) is not None
        return await replica.api_keys.find_by_id(caller.key_id) is not None

    return is_valid


def _same_origin(request: Request) -> bool:
    """Check the request's origin. Prefers Sec-Fetch-Site, because a proxy may change the host."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] == request.headers.get("host")


async def _key_of(request: Request) -> ApiKey | None:
    replica = replica_of(request)
    if (text := _sent_key(request)) is not None:
        return await replica.api_keys.find(text)
    if (session_id := request.cookies.get(COOKIE)) is None:
        return None
    key = await replica.sessions.find(session_id)
    if key and request.method not in ("GET", "HEAD") and not _same_origin(request):
        raise HTTPException(403, "A request with the session's cookie must come from this origin.")
    if key:
        replica.api_keys.mark_used(key)
    return key


async def sends_operator_key(request: Request) -> bool:
    """Whether the request has an operator's key; without the database, a key counts as absent."""
    try:
        key = await _key_of(request)
    except DatabaseUnavailable:
        return False
    return key is not None and key.caller.has_scope("operator")


def _address_of(request: Request) -> str | None:
    """The caller's address. The server takes it from `X-Forwarded-For` of trusted proxies."""
    return None if request.client is None else request.client.host


def act_as(request: Request, caller: Caller) -> None:
    """Name the caller as the actor of what the rest of the request changes."""
    current_actor.set(
        Actor(
            name=caller.key_name,
            key_id=caller.key_id,
            tenant=caller.tenant,
            address=_address_of(request),
            correlation_id=correlation_of(request.headers),
        )
    )


async def _record_failure(request: Request) -> None:
    has_cookie = COOKIE in request.cookies
    kind = "key" if _sent_key(request) else "session" if has_cookie else "missing"
    is_sign_in = request.method == "POST" and request.url.path == "/v1/session"
    await replica_of(request).failed_authentication.record(
        kind, address=_address_of(request), is_sign_in=is_sign_in
    )


def _sent_key(request: Request) -> str | None:
    return _bearer(request) or request.headers.get("x-api-key")


def _bearer(request: Request) -> str | None:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text if text and scheme.lower() == "bearer" else None


def require_scope(caller: Caller, needed: str) -> None:
    """Refuse a caller whose key has a lower scope."""
    if not caller.has_scope(needed):
        raise HTTPException(
            403, f"This needs a key with scope '{needed}'; yours has '{caller.scope}'."
        )


class RequireScope(SecurityBase):
    """A dependency that requires a key with at least this scope and returns the caller."""

    model = KEY_SCHEMES["key"]
    scheme_name = "key"

    def __init__(self, needed: str) -> None:
        self.needed = needed

    async def __call__(self, request: Request) -> Caller:
        # `AuthenticatedRoute` calls this before FastAPI does.
        key = getattr(request.state, "api_key", None)
        if key is None:
            key = request.state.api_key = await _key_of(request)
            if key is not None:
                replica = replica_of(request)
                await replica.token_buckets.take(f"key:{key.id}", replica.policy.limits.requests)
        if key is None:
            await _record_failure(request)
            raise HTTPException(
                401,
                "Send a valid API key as 'Authorization: Bearer <key>'. "
                "Create one with 'botpool key create'.",
                {"WWW-Authenticate": "Bearer"},
            )
        identify_connection(request, CallerKind.USER)
        caller = key.caller
        require_scope(caller, self.needed)
        act_as(request, caller)
        return caller


User = Annotated[Caller, Depends(RequireScope("user"))]
Operator = Annotated[Caller, Depends(RequireScope("operator"))]
Admin = Annotated[Caller, Depends(RequireScope("admin"))]


async def own_bot(replica: Service, caller: User, bot_id: BotPath) -> BotId:
    """Return the bot in the path; a bot of another tenant does not exist for a user's key."""
    if (tenant_id := caller.visible_tenant) is not None:
        await replica.queries.require_bot_of(bot_id, tenant_id)
    return bot_id


OwnBot = Annotated[BotId, Depends(own_bot)]
"""The bot in the path. For keys of scope `user`, bots of other tenants give 404."""


class AgentToken(SecurityBase):
    """A dependency that requires an agent's token and returns its assignment id."""

    model = HTTPBearer(description="The assignment's token.")
    scheme_name = "agentToken"

    async def __call__(self, request: Request) -> AssignmentId:
        # `AuthenticatedRoute` calls this before FastAPI does; the request counts once.
        known: AssignmentId | None = getattr(request.state, "assignment_id", None)
        if known is not None:
            return known
        assignment_id = None
        if (text := self._sent_token(request)) is not None:
            assignment_id = assignment_of(text, replica_of(request).identity.agent_keys)
            request.state.run_id = run_of(text) if assignment_id is not None else None
        if assignment_id is None:
            kind = "missing" if text is None else "token"
            await replica_of(request).failed_authentication.record(
                kind, address=_address_of(request), is_sign_in=False
            )
            raise HTTPException(
                401,
                "Send the assignment's token (BOTPOOL_TOKEN) as 'Authorization: Bearer <token>'.",
                {"WWW-Authenticate": "Bearer"},
            )
        count_agent_request(request, assignment_id)
        identify_connection(request, CallerKind.AGENT)
        request.state.assignment_id = assignment_id
        return assignment_id

    def _sent_token(self, request: Request) -> str | None:
        return _bearer(request)


class StandbyToken(SecurityBase):
    """A dependency that requires the token of a standby and returns its slot and run."""

    model = HTTPBearer(description="The standby's token.")
    scheme_name = "standbyToken"

    async def __call__(self, request: Request) -> tuple[SlotId, AssignmentId]:
        text, replica = _bearer(request), replica_of(request)
        found = standby_of(text, replica.identity.standby_keys) if text is not None else None
        if found is None:
            await replica.failed_authentication.record(
                "missing" if text is None else "token",
                address=_address_of(request),
                is_sign_in=False,
            )
            raise HTTPException(
                401,
                "Send the standby's token (BOTPOOL_STANDBY_TOKEN) as "
                "'Authorization: Bearer <token>'.",
                {"WWW-Authenticate": "Bearer"},
            )
        count_agent_request(request, found[1])
        identify_connection(request, CallerKind.AGENT)
        return found


WaitingStandby = Annotated[tuple[SlotId, AssignmentId], Depends(StandbyToken())]


class EventToken(AgentToken):
    """Requires an agent's token, and refuses an agent that recently sent too many events."""

    async def __call__(self, request: Request) -> AssignmentId:
        assignment_id = await super().__call__(request)
        replica_of(request).agents.event_refusals.check(assignment_id)
        return assignment_id


AgentAssignment = Annotated[AssignmentId, Depends(AgentToken())]
EventAssignment = Annotated[AssignmentId, Depends(EventToken())]


class VexaToken(AgentToken):
    """A dependency that also takes the token from the header of Vexa's older bots."""

    def _sent_token(self, request: Request) -> str | None:
        return _bearer(request) or request.headers.get("x-internal-secret")


VexaAssignment = Annotated[AssignmentId, Depends(VexaToken())]


class MiloToken(AgentToken):
    """Takes the token from the header of Meeboter's bots."""

    def _sent_token(self, request: Request) -> str | None:
        return request.headers.get("x-milo-token")
