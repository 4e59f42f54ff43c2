"""API handlers for the installation and its server, project and environment: one of each."""

from typing import Any

import httpx

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.endpoints import Ability, endpoint


def require(name: str, given: object, expected: str) -> None:
    if given != expected:
        raise http.not_found(name)


@endpoint("GET /health", None)
def health(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    return httpx.Response(200, html="OK")


@endpoint("GET /version", Ability.READ)
def version(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    return httpx.Response(200, html=coolify.config.version)


@endpoint("GET /servers", Ability.READ)
def list_servers(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    server, reachable = _server(coolify), coolify.server_reachable
    return http.data([{**server, "is_reachable": reachable, "is_usable": reachable}])


@endpoint("GET /servers/{uuid}", Ability.READ)
def show_server(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    require("Server", uuid, coolify.config.server)
    return http.data(_server(coolify))


@endpoint("GET /projects", Ability.READ)
def list_projects(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    return http.data([_project(coolify)])


@endpoint("GET /projects/{uuid}", Ability.READ)
def show_project(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    require("Project", uuid, coolify.config.project)
    return http.data({**_project(coolify), "environments": [_environment(coolify)]})


@endpoint("GET /projects/{uuid}/{environment_name_or_uuid}", Ability.READ)
def show_environment(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    """Find the environment by its name or uuid, the last part of the path."""
    require("Project", uuid, coolify.config.project)
    name_or_uuid = request.url.path.rstrip("/").rpartition("/")[2]
    require("Environment", name_or_uuid, coolify.config.environment)
    return http.data(_environment(coolify))


def _server(coolify: EmulatedCoolify) -> dict[str, Any]:
    return {
        "uuid": coolify.config.server,
        "name": coolify.config.server,
        "settings": {
            "concurrent_builds": coolify.config.concurrent_builds,
            "deployment_queue_limit": coolify.config.queue_limit,
            "is_reachable": coolify.server_reachable,
            "is_usable": coolify.server_reachable,
        },
    }


def _project(coolify: EmulatedCoolify) -> dict[str, Any]:
    return {"uuid": coolify.config.project, "name": coolify.config.project}


def _environment(coolify: EmulatedCoolify) -> dict[str, Any]:
    """The environment's uuid equals its name."""
    return {"uuid": coolify.config.environment, "name": coolify.config.environment}
