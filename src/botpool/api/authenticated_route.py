"""A route that authenticates before it reads the request's body.

FastAPI reads and parses the body before it calls the dependencies, so that a caller without a key
could make the server parse a large body.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase


class AuthenticatedRoute(APIRoute):
    """Runs the route's key or token check first. The dependency later returns the same result."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        checks = list(_checks_of(self.dependant))
        if self.body_field is None or not checks:
            return handle

        async def authenticate_and_handle(request: Request) -> Response:
            for check in checks:
                await check(request)
            return await handle(request)

        return authenticate_and_handle


def _checks_of(dependant: Dependant) -> Iterator[Any]:
    """Return the checks of keys and tokens among the dependencies, at any depth."""
    for each in dependant.dependencies:
        if isinstance(each.call, SecurityBase):
            yield each.call
        yield from _checks_of(each)
