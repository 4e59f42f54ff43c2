"""For balancers and supervisors: does the process live, can it serve."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from botpool.api import schemas
from botpool.api.auth import Service

routes = APIRouter(tags=["health"])


@routes.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@routes.get(
    "/readyz",
    response_model=schemas.Ready,
    responses={503: {"model": schemas.Ready, "description": "Trouble with database or schema."}},
)
async def readyz(replica: Service) -> Response:
    """503 only for trouble with the database or its schema.

    A backend's trouble is told in the body with 200: otherwise every replica would leave its
    balancer at once, and the agents' heartbeats with them.
    """
    state = await replica.readiness.state()
    body = schemas.Ready.model_validate(state).model_dump(mode="json", by_alias=True)
    return JSONResponse(body, status_code=200 if state.ready else 503)
