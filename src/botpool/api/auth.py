"""Authenticates users by API key or session cookie, and agents by their assignment's token.

Each is one dependency that reads the headers itself. FastAPI's own security classes, one for each
header that can carry a key, would cost much more time per request.
"""

import hashlib
import hmac
import time
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.openapi.models import APIKey, HTTPBearer
from fastapi.openapi.models import SecurityBase as Described
from fastapi.security.base import SecurityBase

from botpool.domain.ids import AssignmentId
from botpool.domain.records import ApiKey
from botpool.domain.tokens import assignment_of
from botpool.engine.api_keys import SCOPES
from botpool.engine.replica import Replica

COOKIE = "botpool_session"
SESSION_S = 7 * 24 * 3600

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


def session_cookie(key: ApiKey, secret: bytes) -> str:
    """Create a session cookie: a key id and an expiry, signed. It ends when the key is revoked."""
    body = f"{key.id}.{int(time.time()) + SESSION_S}"
    return f"{body}.{_sign(body, secret)}"


async def _from_cookie(request: Request, cookie: str, replica: Replica) -> ApiKey | None:
    body, _, signature = cookie.rpartition(".")
    expected = _sign(body, replica.identity.secret)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        return None
    key_id, _, ends_at = body.partition(".")
    if int(ends_at) < time.time():
        return None
    request.state.session_ends_at = int(ends_at)
    if request.method not in ("GET", "HEAD") and not _same_origin(request):
        raise HTTPException(403, "A request with the session's cookie must come from this origin.")
    return await replica.api_keys.find_by_id(int(key_id))


def session_end(request: Request) -> int | None:
    """The time at which the caller's session ends; None if the caller sent a key."""
    ends_at: int | None = getattr(request.state, "session_ends_at", None)
    return ends_at


def _sign(body: str, secret: bytes) -> str:
    message = f"botpool session {body}".encode("utf-8", "replace")
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


def _same_origin(request: Request) -> bool:
    """Check the request's origin. Prefers Sec-Fetch-Site, because a proxy may change the host."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] == request.headers.get("host")


async def _key_of(request: Request) -> ApiKey | None:
    replica = replica_of(request)
    if (text := _bearer(request) or request.headers.get("x-api-key")) is not None:
        return await replica.api_keys.find(text)
    if (cookie := request.cookies.get(COOKIE)) is not None:
        return await _from_cookie(request, cookie, replica)
    return None


def _bearer(request: Request) -> str | None:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text if text and scheme.lower() == "bearer" else None


class RequireScope(SecurityBase):
    """A dependency that requires a key with at least this scope."""

    model = KEY_SCHEMES["key"]
    scheme_name = "key"

    def __init__(self, needed: str) -> None:
        self._needed = needed

    async def __call__(self, request: Request) -> ApiKey:
        key = await _key_of(request)
        if key is None:
            raise HTTPException(
                401,
                "Send a valid API key as 'Authorization: Bearer <key>'. "
                "Create one with 'botpool key create'.",
                {"WWW-Authenticate": "Bearer"},
            )
        if SCOPES.index(key.scope) < SCOPES.index(self._needed):
            raise HTTPException(
                403, f"This needs a key with scope '{self._needed}'; yours has '{key.scope}'."
            )
        return key


User = Annotated[ApiKey, Depends(RequireScope("user"))]
Operator = Annotated[ApiKey, Depends(RequireScope("operator"))]
Admin = Annotated[ApiKey, Depends(RequireScope("admin"))]


class AgentToken(SecurityBase):
    """A dependency that requires an agent's token and returns its assignment id."""

    model = HTTPBearer(description="The assignment's token.")
    scheme_name = "agentToken"

    async def __call__(self, request: Request) -> AssignmentId:
        assignment_id = None
        if (text := _bearer(request)) is not None:
            assignment_id = assignment_of(text, replica_of(request).identity.secret)
        if assignment_id is None:
            raise HTTPException(
                401,
                "Send the assignment's token (BOTPOOL_TOKEN) as 'Authorization: Bearer <token>'.",
                {"WWW-Authenticate": "Bearer"},
            )
        return assignment_id


AgentAssignment = Annotated[AssignmentId, Depends(AgentToken())]
