"""Creates the HTTP application of one replica."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from botpool import __version__
from botpool.api import (
    agent_data,
    agents,
    audit,
    bot_data,
    bot_history,
    create_bot,
    keys,
    monitoring,
    pools,
    problems,
    rollouts,
    schemas,
    sessions,
    slots,
    stream,
    tenants,
    users,
    validation_messages,
    vexa,
    webhooks,
)
from botpool.api.access import document_access
from botpool.api.active_requests import ActiveRequests
from botpool.api.auth import KEY_SCHEMES
from botpool.api.connections import ConnectionLimits
from botpool.api.correlation import CorrelationMiddleware
from botpool.api.limits import BodyLimit
from botpool.api.meeboter.routes import routes as meeboter_routes
from botpool.api.request_checks import RequestChecks
from botpool.engine.replica import Replica
from botpool.settings import Settings


def connection_limits_of(settings: Settings) -> ConnectionLimits:
    """Return the limits for connections and requests in progress."""
    limits = settings.limits
    return ConnectionLimits(
        connections=limits.connections,
        for_agents=limits.reserved_for_agents,
        per_address=limits.connections_per_address,
        per_agent=limits.requests_per_agent,
        first_byte_s=limits.first_byte_timeout_s,
        head_s=limits.head_timeout_s,
        body_s=limits.body_timeout_s,
        response_s=limits.response_timeout_s,
        keep_alive_s=limits.keep_alive_timeout_s,
    )


def create_app(
    replica: Replica, settings: Settings, connection_limits: ConnectionLimits | None = None
) -> FastAPI:
    """Create the application with the routes, error handlers and middleware of this replica."""
    pool_names = tuple(settings.pools)
    bot_create = schemas.bot_create_model(
        pool_names,
        default_timeout_ms=settings.queue.default_timeout_ms,
        max_timeout_ms=settings.queue.max_timeout_ms,
    )
    modules = (
        users,
        bot_history,
        bot_data,
        sessions,
        agents,
        agent_data,
        vexa,
        pools,
        rollouts,
        slots,
        stream,
        keys,
        tenants,
        audit,
        webhooks,
    )
    routers = (
        create_bot.router(
            bot_create,
            {name: pool.backend for name, pool in settings.pools.items()},
            {name: pool.allowed_hosts for name, pool in settings.pools.items()},
        ),
        *(module.routes for module in modules),
        monitoring.router(settings.server.metrics),
    )
    app = FastAPI(
        title="Botpool",
        version=__version__,
        description="Send bots into video meetings from a pool of warm slots.",
        # One schema per model in the document, for requests and responses.
        separate_input_output_schemas=False,
        redirect_slashes=False,
        # FastAPI's documentation pages load scripts from other origins; the dashboard serves /docs.
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.server.docs == "open" else None,
        # Passed as a list: `include_router` would create every route twice.
        routes=[*(route for router in routers for route in router.routes), *meeboter_routes],
    )
    app.state.replica = replica
    problems.add_error_handlers(app)
    validation_messages.add_validation_handlers(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(CorrelationMiddleware)
    app.add_middleware(
        ActiveRequests,
        limits=connection_limits or connection_limits_of(settings),
        on_refused=lambda limit: replica.metrics.request_refused(limit),
    )
    app.add_middleware(RequestChecks)
    _document_schemas(app, bot_create)
    return app


def _document_schemas(app: FastAPI, bot_create: type[BaseModel]) -> None:
    """Add the schemas that routes name themselves: errors and the body of `POST /v1/bots`."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        schema_by_name = document.setdefault("components", {}).setdefault("schemas", {})
        for model in (problems.Problem, bot_create):
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schema_by_name.update(schema.pop("$defs", {}))
            schema_by_name[model.__name__] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            schema_by_name.pop(unused, None)
        _document_keys(document)
        document_access(app, document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _document_keys(document: dict[str, Any]) -> None:
    """Document all ways to send a key; FastAPI knows only one."""
    document["components"]["securitySchemes"] |= {
        name: scheme.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, scheme in KEY_SCHEMES.items()
    }
    for path in document["paths"].values():
        for operation in path.values():
            if {"key": []} in operation.get("security", ()):
                operation["security"] = [{name: []} for name in KEY_SCHEMES]
