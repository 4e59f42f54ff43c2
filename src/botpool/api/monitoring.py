"""Routes for load balancers, supervisors and Prometheus."""

from typing import Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from botpool.api import operator_schemas as schemas
from botpool.api.auth import RequireScope, Service, sends_operator_key
from botpool.api.problems import error_responses
from botpool.api.readiness_details import public_detail
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


async def readyz(request: Request, replica: Service) -> Response:
    """Check that the replica can serve. Failures of the database and late loops give 503.

    Backend failures are reported with 200. Otherwise every replica would leave its load balancer at
    once, and agents could send no heartbeats. Without an operator's key, descriptions of failures
    contain no addresses.
    """
    state = await replica.readiness.state()
    ready = schemas.Ready.model_validate(state)
    if not await sends_operator_key(request):
        ready = _without_addresses(ready, is_database_problem=state.is_database_problem)
    body = ready.model_dump(mode="json", by_alias=True)
    return JSONResponse(body, status_code=200 if state.ready else 503)


def _without_addresses(ready: schemas.Ready, *, is_database_problem: bool) -> schemas.Ready:
    setting = "database.url" if is_database_problem else None
    problem = ready.problem and public_detail(ready.problem, setting=setting)
    backends = {
        name: health
        if health.ok
        else schemas.BackendHealth(
            ok=False, detail=public_detail(health.detail, setting=f"backends.{name}")
        )
        for name, health in ready.backends.items()
    }
    return ready.model_copy(update={"problem": problem, "backends": backends})


async def metrics(replica: Service) -> Response:
    """Get the Prometheus metrics of this replica. Pool figures are at most five seconds old."""
    return Response(await replica.metrics_export.text(), headers={"Content-Type": CONTENT_TYPE})
