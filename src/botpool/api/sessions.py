"""Routes for the dashboard's session cookie."""

from fastapi import APIRouter, Request, Response

from botpool.api import schemas
from botpool.api.auth import COOKIE, SESSION_S, Service, User, session_cookie
from botpool.api.problems import error_responses

routes = APIRouter(prefix="/v1", tags=["users"])


@routes.post("/session", responses=error_responses(401, 403, 503))
async def open_session(
    replica: Service, key: User, request: Request, response: Response
) -> schemas.Session:
    """Sign in to the dashboard: exchange an API key for a session cookie."""
    response.set_cookie(
        COOKIE,
        session_cookie(key, replica.identity.secret),
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return schemas.Session(name=key.name, scope=key.scope)


@routes.delete("/session", status_code=204)
async def close_session(response: Response) -> None:
    """Sign out: delete the session cookie of this browser."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
