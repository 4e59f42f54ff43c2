"""Documents who may call each operation: the scope of the key, and whose bots it reaches.

The OpenAPI document carries both as `x-botpool-scope` and `x-botpool-tenant`. A test calls every
operation with every kind of caller and compares the responses with them.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from botpool.api.auth import AgentToken, RequireScope, StandbyToken, own_bot

SCOPE = "x-botpool-scope"
"""The least scope of the key: `user`, `operator`, `admin`; `agent` for an assignment's token,
`standby` for a standby's token; or `none`."""
TENANT = "x-botpool-tenant"
"""`own`: with a key of scope `user`, only bots of the key's tenant exist. `all`: the operation
covers all tenants. `none`: it touches no bots."""

OWN_BOTS = {TENANT: "own"}
NO_BOTS = {TENANT: "none"}
"""For `openapi_extra` of a route for users whose bots do not follow from its parameters."""

_TENANT_OF_SCOPE = {
    "operator": "all",
    "admin": "all",
    "agent": "own",
    "standby": "own",
    "none": "none",
}


def document_access(app: FastAPI, document: dict[str, Any]) -> None:
    """Add the scope and the tenant rule of each operation, as far as its dependencies show them.

    A route that checks its key itself, or that is for users without a bot in its path, declares
    what is missing.
    """
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                _add_scope_and_tenant(document["paths"][route.path_format][method.lower()], route)


def _add_scope_and_tenant(operation: dict[str, Any], route: APIRoute) -> None:
    calls = [*_calls_of(route.dependant)]
    scopes = [call.needed for call in calls if isinstance(call, RequireScope)]
    if any(isinstance(call, AgentToken) for call in calls):
        scopes.append("agent")
    if any(isinstance(call, StandbyToken) for call in calls):
        scopes.append("standby")
    operation.setdefault(SCOPE, scopes[0] if scopes else "none")
    rule = "own" if own_bot in calls else _TENANT_OF_SCOPE.get(operation[SCOPE])
    if rule is not None:
        operation.setdefault(TENANT, rule)


def _calls_of(dependant: Dependant) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls_of(each)
