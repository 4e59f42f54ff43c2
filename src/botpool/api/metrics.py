"""The route for Prometheus metrics."""

from typing import Literal

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse, Response

from botpool.api.auth import RequireScope, Service
from botpool.api.problems import error_responses
from botpool.engine.observability.metrics_export import CONTENT_TYPE

Access = Literal["open", "key", "off"]


def router(access: Access) -> APIRouter:
    """Create the route for `server.metrics`: without a key, with an operator's key, or no route."""
    routes = APIRouter(tags=["monitoring"])
    if access == "off":
        return routes
    needs_key = access == "key"

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        dependencies=[Depends(RequireScope("operator"))] if needs_key else [],
        responses=error_responses(401, 403, 503) if needs_key else {},
    )
    async def metrics(replica: Service) -> Response:
        """Get the Prometheus metrics of this replica. Pool figures are at most five seconds old."""
        return Response(await replica.metrics_export.text(), headers={"Content-Type": CONTENT_TYPE})

    return routes
