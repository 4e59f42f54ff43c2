"""A route that authenticates before it reads the request's body.

FastAPI reads and parses the body before it calls the dependencies, so that a caller without a key
could make the server parse a large body.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from botpool.api.auth import AgentToken, RequireScope


class AuthenticatedRoute(APIRoute):
    """Runs the route's key or token check first. The dependency later returns the same result."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        calls = [each.call for each in self.dependant.dependencies]
        checks = [call for call in calls if isinstance(call, RequireScope | AgentToken)]
        if self.body_field is None or not checks:
            return handle

        async def authenticate_and_handle(request: Request) -> Response:
            for check in checks:
                await check(request)
            return await handle(request)

        return authenticate_and_handle
