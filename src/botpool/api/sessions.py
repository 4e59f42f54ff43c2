"""Routes for the dashboard's session cookie."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response

from botpool.api import key_schemas as schemas
from botpool.api.access import NO_BOTS
from botpool.api.auth import COOKIE, Service, User, act_as, session_id_of
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.problems import error_responses
from botpool.domain.callers import Caller
from botpool.engine.dashboard_sessions import SESSION_S

Replace = Annotated[
    bool, Query(description="False: refuse with 409 to replace the session of another key.")
]

routes = APIRouter(prefix="/v1", tags=["users"], route_class=AuthenticatedRoute)


@routes.post("/session", responses=error_responses(401, 403, 409, 422, 503), openapi_extra=NO_BOTS)
async def open_session(
    replica: Service, caller: User, request: Request, response: Response, replace: Replace = True
) -> schemas.Session:
    """Sign in to the dashboard: exchange an API key for a session cookie.

    The session of this browser, if any, ends. Without a key in the headers, the current session
    goes on: no request extends a session.
    """
    if session_id_of(request) is None:
        if (former := request.cookies.get(COOKIE)) is not None:
            if not replace and (current := await replica.sessions.find(former)) is not None:
                return _kept(current.caller, caller)
            await replica.sessions.end(former)
        response.set_cookie(
            COOKIE,
            await replica.sessions.begin(caller.key_id),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return _session(caller)


def _kept(current: Caller, sent: Caller) -> schemas.Session:
    """Keep the current session, unless it belongs to another key than the sent one."""
    if current.key_id != sent.key_id:
        signed_in = f"'{current.key_name}' ({current.scope})"
        raise HTTPException(
            409,
            f"This browser is signed in as {signed_in}, not as '{sent.key_name}' ({sent.scope}).",
        )
    return _session(current)


def _session(caller: Caller) -> schemas.Session:
    return schemas.Session(name=caller.key_name, scope=caller.scope, tenant=caller.tenant)


@routes.delete("/session", status_code=204, responses=error_responses(503))
async def close_session(replica: Service, request: Request, response: Response) -> None:
    """Sign out: end the session of this browser and delete its cookie."""
    if (session_id := request.cookies.get(COOKIE)) is not None:
        if (key := await replica.sessions.find(session_id)) is not None:
            act_as(request, key.caller)
        await replica.sessions.end(session_id)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
