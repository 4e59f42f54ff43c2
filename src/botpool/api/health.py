"""Routes for load balancers and supervisors."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from botpool.api import operator_schemas as schemas
from botpool.api.auth import Service

routes = APIRouter(tags=["monitoring"])


@routes.get("/healthz")
async def healthz() -> dict[str, str]:
    """Check that the process answers."""
    return {"status": "ok"}


@routes.get(
    "/readyz",
    response_model=schemas.Ready,
    responses={
        503: {
            "model": schemas.Ready,
            "description": "The database or its schema is not usable.",
        }
    },
)
async def readyz(replica: Service) -> Response:
    """Check that the replica can serve. Only database or schema failures give 503.

    Backend failures are reported with 200. Otherwise every replica would leave its load balancer at
    once, and agents could send no heartbeats.
    """
    state = await replica.readiness.state()
    body = schemas.Ready.model_validate(state).model_dump(mode="json", by_alias=True)
    return JSONResponse(body, status_code=200 if state.ready else 503)
