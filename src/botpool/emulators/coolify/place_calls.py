"""The calls about where applications are made: servers, projects, environments. One of each."""

from botpool.emulators.coolify import http, shown
from botpool.emulators.coolify.bodies import Refusal
from botpool.emulators.coolify.http import Answer, Request
from botpool.emulators.coolify.world import World


def require(name: str, given: object, right: str) -> None:
    if given != right:
        raise Refusal(http.message(404, f"{name} not found."))


def list_servers(world: World, request: Request, uuid: str) -> Answer:
    server = shown.server(world)
    told = {name: server["settings"][name] for name in ("is_reachable", "is_usable")}
    return http.data([{**server, **told}])


def show_server(world: World, request: Request, uuid: str) -> Answer:
    require("Server", uuid, world.nature.server)
    return http.data(shown.server(world))


def list_projects(world: World, request: Request, uuid: str) -> Answer:
    return http.data([shown.project(world)])


def show_project(world: World, request: Request, uuid: str) -> Answer:
    require("Project", uuid, world.nature.project)
    return http.data({**shown.project(world), "environments": [shown.environment(world)]})


def show_environment(world: World, request: Request, uuid: str) -> Answer:
    """By its name or its uuid, the last part of the path."""
    require("Project", uuid, world.nature.project)
    name_or_uuid = request.path.rstrip("/").rpartition("/")[2]
    require("Environment", name_or_uuid, world.nature.environment)
    return http.data(shown.environment(world))
