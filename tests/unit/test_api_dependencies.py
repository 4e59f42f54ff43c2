"""Routes and dependencies run on the event loop, not in threads."""

from collections.abc import Iterator, Sequence
from inspect import iscoroutinefunction, isfunction, ismethod
from types import NoneType
from typing import Any, cast, get_args

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase
from starlette.routing import Match, Route

from botpool.api.app import create_app
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.schemas import RequestModel
from botpool.engine.replica import Replica
from botpool.settings import Settings


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(cast("Replica", None), Settings())


def test_dependencies_and_routes_are_asynchronous(app: FastAPI) -> None:
    """FastAPI runs synchronous functions in threads, which costs more than the request itself."""
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    called = [call for route in routes for call in _calls(route.dependant)]
    assert len(called) > 50
    assert [call for call in called if not _is_asynchronous(call)] == []


def test_routes_are_registered_once(app: FastAPI) -> None:
    """FastAPI creates a route of an included router twice."""
    assert [route for route in app.routes if not isinstance(route, Route)] == []


def test_plain_route_serves_requests_for_bots(app: FastAPI) -> None:
    """FastAPI's own route would search for declared parameters on every request."""
    scope = {"type": "http", "method": "POST", "path": "/v1/bots"}
    serving = next(route for route in app.routes if route.matches(scope)[0] is Match.FULL)
    assert type(serving) is Route
    documented = app.openapi()["paths"]["/v1/bots"]["post"]
    assert {"201", "200", "409", "422", "503"} <= set(documented["responses"])


def test_routes_with_a_body_authenticate_before_they_read_it(app: FastAPI) -> None:
    routes = [route for route in _routes(app) if route.body_field is not None]
    assert len(routes) > 3
    assert [route.path for route in routes if not isinstance(route, AuthenticatedRoute)] == []
    unchecked = [
        route.path
        for route in routes
        if not any(isinstance(call, SecurityBase) for call in _calls(route.dependant))
    ]
    assert unchecked == []


def test_bodies_limit_the_number_of_their_fields(app: FastAPI) -> None:
    """Each unknown field costs an error message, so a body of them would block the loop."""
    bodies = [param.field_info.annotation for route in _routes(app) for param in _body_of(route)]
    assert len(bodies) > 3
    kinds = [kind for body in bodies for kind in (get_args(body) or (body,))]
    unlimited = [
        kind
        for kind in kinds
        if kind is not NoneType
        and not issubclass(kind, RequestModel)
        and kind.model_config.get("extra") == "forbid"
    ]
    assert unlimited == []


def _routes(app: FastAPI) -> list[APIRoute]:
    return [route for route in app.routes if isinstance(route, APIRoute)]


def _body_of(route: APIRoute) -> Sequence[Any]:
    return route.dependant.body_params


def _calls(dependant: Dependant) -> Iterator[Any]:
    assert dependant.call is not None
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _is_asynchronous(call: Any) -> bool:
    return iscoroutinefunction(call if isfunction(call) or ismethod(call) else type(call).__call__)
