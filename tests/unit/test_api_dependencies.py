"""What a request asks of the framework is asked on the loop, and not in a thread."""

from collections.abc import Iterable, Iterator
from inspect import iscoroutinefunction, isfunction, ismethod
from typing import Any, cast

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from botpool.api.app import HttpSettings, create_app
from botpool.engine.replica import Replica


def test_no_dependency_and_no_route_takes_a_thread() -> None:
    """FastAPI calls a plain function in a thread, which costs more than the rest of a request."""
    settings = HttpSettings(platforms=("teams",), default_timeout_ms=1, max_timeout_ms=1)
    app = create_app(cast("Replica", None), settings)
    called = [call for route in _api_routes(app.routes) for call in _calls(route.dependant)]
    assert len(called) > 50
    assert [call for call in called if not _is_asynchronous(call)] == []


def _api_routes(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            included = getattr(route, "original_router", None)
            yield from _api_routes(included.routes if included else ())


def _calls(dependant: Dependant) -> Iterator[Any]:
    assert dependant.call is not None
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _is_asynchronous(call: Any) -> bool:
    return iscoroutinefunction(call if isfunction(call) or ismethod(call) else type(call).__call__)
