"""API handlers for servers, projects and environments. The emulator has one of each."""

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify import serializers
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.http_messages import Request, RequestRejected, Response


def require(name: str, given: object, expected: str) -> None:
    if given != expected:
        raise RequestRejected(http.message(404, f"{name} not found."))


def list_servers(coolify: EmulatedCoolify, request: Request, uuid: str) -> Response:
    server = serializers.server(coolify)
    reachability = {name: server["settings"][name] for name in ("is_reachable", "is_usable")}
    return http.data([{**server, **reachability}])


def show_server(coolify: EmulatedCoolify, request: Request, uuid: str) -> Response:
    require("Server", uuid, coolify.config.server)
    return http.data(serializers.server(coolify))


def list_projects(coolify: EmulatedCoolify, request: Request, uuid: str) -> Response:
    return http.data([serializers.project(coolify)])


def show_project(coolify: EmulatedCoolify, request: Request, uuid: str) -> Response:
    require("Project", uuid, coolify.config.project)
    environments = [serializers.environment(coolify)]
    return http.data({**serializers.project(coolify), "environments": environments})


def show_environment(coolify: EmulatedCoolify, request: Request, uuid: str) -> Response:
    """Find the environment by its name or uuid, the last part of the path."""
    require("Project", uuid, coolify.config.project)
    name_or_uuid = request.path.rstrip("/").rpartition("/")[2]
    require("Environment", name_or_uuid, coolify.config.environment)
    return http.data(serializers.environment(coolify))
