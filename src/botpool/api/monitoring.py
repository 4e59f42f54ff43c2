"""Routes for load balancers, supervisors and Prometheus."""

from typing import Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from botpool.api import operator_schemas as schemas
from botpool.api.auth import RequireScope, Service
from botpool.api.problems import error_responses
from botpool.engine.observability.metrics_export import CONTENT_TYPE


def router(access: Literal["open", "key", "off"]) -> APIRouter:
    """Create the routes. `access` (`server.metrics`) says who may read the metrics."""
    routes = APIRouter(tags=["monitoring"])
    routes.get("/healthz")(healthz)
    unusable = {"model": schemas.Ready, "description": "The database or its schema is not usable."}
    routes.get("/readyz", response_model=schemas.Ready, responses={503: unusable})(readyz)
    if access != "off":
        needs_key = access == "key"
        routes.get(
            "/metrics",
            response_class=PlainTextResponse,
            dependencies=[Depends(RequireScope("operator"))] if needs_key else [],
            responses=error_responses(401, 403, 503) if needs_key else {},
        )(metrics)
    return routes


async def healthz() -> dict[str, str]:
    """Check that the process answers."""
    return {"status": "ok"}


async def readyz(replica: Service) -> Response:
    """Check that the replica can serve. Only database or schema failures give 503.

    Backend failures are reported with 200. Otherwise every replica would leave its load balancer at
    once, and agents could send no heartbeats.
    """
    state = await replica.readiness.state()
    body = schemas.Ready.model_validate(state).model_dump(mode="json", by_alias=True)
    return JSONResponse(body, status_code=200 if state.ready else 503)


async def metrics(replica: Service) -> Response:
    """Get the Prometheus metrics of this replica. Pool figures are at most five seconds old."""
    return Response(await replica.metrics_export.text(), headers={"Content-Type": CONTENT_TYPE})
