"""Routes and dependencies run on the event loop, not in threads."""

from collections.abc import Iterator
from inspect import iscoroutinefunction, isfunction, ismethod
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Match, Route

from botpool.api.app import create_app
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


def _calls(dependant: Dependant) -> Iterator[Any]:
    assert dependant.call is not None
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _is_asynchronous(call: Any) -> bool:
    return iscoroutinefunction(call if isfunction(call) or ismethod(call) else type(call).__call__)
