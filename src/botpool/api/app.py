"""The HTTP application, made for one replica."""

from dataclasses import dataclass
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel

from botpool import __version__
from botpool.api import (
    agents,
    health,
    keys,
    lives,
    metrics,
    operators,
    problems,
    refusals,
    schemas,
    sessions,
    stream,
    users,
)
from botpool.api.auth import KEY_SCHEMES
from botpool.api.correlation import BoundCorrelation
from botpool.api.limits import BodyLimit
from botpool.api.metrics import Access
from botpool.engine.replica import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    platforms: tuple[str, ...]
    default_timeout_ms: int
    max_timeout_ms: int
    metrics: Access = "key"
    docs: Literal["open", "off"] = "open"


def create_app(replica: Replica, settings: HttpSettings) -> FastAPI:
    bot_create = schemas.bot_create_model(
        settings.platforms,
        default_timeout_ms=settings.default_timeout_ms,
        max_timeout_ms=settings.max_timeout_ms,
    )
    parts = (
        users.router(bot_create, settings.platforms),
        *(part.routes for part in (lives, sessions, agents, operators, stream, keys, health)),
        metrics.router(settings.metrics),
    )
    app = FastAPI(
        title="Botpool",
        version=__version__,
        description="Send bots into meetings, from a pool of warm slots.",
        # One name in the document for each shape, whether it is sent or answered.
        separate_input_output_schemas=False,
        redirect_slashes=False,
        # FastAPI's own pages load their programs from elsewhere; the dashboard brings one of ours.
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.docs == "open" else None,
        # Not included, one router in another: that makes every route a second time, at the first
        # request, and looks for it twice at every request.
        routes=[route for part in parts for route in part.routes],
    )
    app.state.replica = replica
    problems.install(app)
    refusals.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(BoundCorrelation)
    _document_schemas(app, bot_create)
    return app


def _document_schemas(app: FastAPI, bot_create: type[BaseModel]) -> None:
    """Add the schemas that routes name themselves: errors and the body of `POST /v1/bots`."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        shapes = document.setdefault("components", {}).setdefault("schemas", {})
        for model in (problems.Problem, bot_create):
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            shapes.update(schema.pop("$defs", {}))
            shapes[model.__name__] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            shapes.pop(unused, None)
        _document_keys(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _document_keys(document: dict[str, Any]) -> None:
    """Where a key may stand instead: the framework knows of one place only."""
    document["components"]["securitySchemes"] |= {
        name: scheme.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, scheme in KEY_SCHEMES.items()
    }
    for path in document["paths"].values():
        for operation in path.values():
            if {"key": []} in operation.get("security", ()):
                operation["security"] = [{name: []} for name in KEY_SCHEMES]
