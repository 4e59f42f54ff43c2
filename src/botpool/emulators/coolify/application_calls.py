"""The calls about applications."""

from collections.abc import Mapping
from typing import Any

from botpool.emulators.coolify import fields, http, shown
from botpool.emulators.coolify.bodies import Refusal, read_json
from botpool.emulators.coolify.containers import KeepsOutput
from botpool.emulators.coolify.http import Answer, Request
from botpool.emulators.coolify.place_calls import require
from botpool.emulators.coolify.records import Application
from botpool.emulators.coolify.variables import Written
from botpool.emulators.coolify.world import World

_REQUIRED = ("project_uuid", "server_uuid", "docker_registry_image_name")
_PLACE = {"project_uuid", "server_uuid", "environment_name", "environment_uuid", "destination_uuid"}
_COLUMNS = {
    "name",
    "description",
    "docker_registry_image_name",
    "docker_registry_image_tag",
    "tags",
}
_ORDERS = {"domains", "instant_deploy", "autogenerate_domain", "force_domain_override"}
_NOT_SETTINGS = _PLACE | _COLUMNS | _ORDERS
_LONGEST_DESCRIPTION = 255
_MOST_LOG_LINES = 10_000
_FLAGS = ("is_preview", "is_literal", "is_multiline", "is_shown_once")


def found(world: World, uuid: str) -> Application:
    application = world.applications.get(uuid)
    if application is None:
        raise Refusal(http.message(404, "Application not found."))
    return application


def list_all(world: World, request: Request, uuid: str) -> Answer:
    tag = request.query.get("tag")
    return http.data(
        [
            shown.application(world, application)
            for application in world.applications.values()
            if not tag or tag in application.tags
        ]
    )


def show(world: World, request: Request, uuid: str) -> Answer:
    return http.data(shown.application(world, found(world, uuid)))


def create(world: World, request: Request, uuid: str) -> Answer:
    wanted = read_json(request)
    problems = fields.problems(wanted, fields.CREATE, _REQUIRED)
    if not wanted.get("environment_name") and not wanted.get("environment_uuid"):
        both = "You need to provide at least one of environment_name or environment_uuid."
        problems.setdefault("environment_name", [both])
    if problems:
        return http.invalid(problems)
    _check_place(world, wanted)
    description = _description(wanted)
    image, tag = _image(wanted)
    application = world.create_application(
        name=wanted.get("name"),
        image=image,
        tag=tag,
        description=description,
        tags=tuple(str(tag).lower() for tag in wanted.get("tags") or ()),
        settings=_settings(wanted),
        with_domain=wanted.get("autogenerate_domain", True) and not wanted.get("domains"),
    )
    if wanted.get("instant_deploy"):
        world.start(application)
    return http.data({"uuid": application.uuid, "domains": application.fqdn}, 201)


def update(world: World, request: Request, uuid: str) -> Answer:
    application = found(world, uuid)
    wanted = read_json(request)
    if problems := fields.problems(wanted, fields.UPDATE):
        return http.invalid(problems)
    if "description" in wanted:
        application.description = _description(wanted)
    if wanted.get("name"):
        application.name = wanted["name"]
    if wanted.get("docker_registry_image_name"):
        application.image, application.tag = _image(
            {"docker_registry_image_tag": application.tag} | wanted
        )
    elif wanted.get("docker_registry_image_tag"):
        application.tag = wanted["docker_registry_image_tag"]
    application.settings |= _settings(wanted)
    application.updated_at = world.now
    if wanted.get("instant_deploy"):
        world.start(application)
    return http.data({"uuid": application.uuid})


def delete(world: World, request: Request, uuid: str) -> Answer:
    world.delete(found(world, uuid))
    return http.message(200, "Application deletion request queued.")


def stop(world: World, request: Request, uuid: str) -> Answer:
    world.stop(found(world, uuid))
    return http.message(200, "Application stopping request queued.")


def logs(world: World, request: Request, uuid: str) -> Answer:
    application = found(world, uuid)
    if not application.status.startswith("running") or not application.containers:
        return http.message(400, "Application is not running.")
    asked = request.query.get("lines", "100")
    lines = min(int(asked), _MOST_LOG_LINES) if asked.isascii() and asked.isdecimal() else 100
    runtime, handle = world.scene.runtime, application.containers[-1].handle
    text = runtime.output(handle, lines) if isinstance(runtime, KeepsOutput) else ""
    return http.data({"logs": text})


def list_variables(world: World, request: Request, uuid: str) -> Answer:
    application = found(world, uuid)
    return http.data([shown.variable(world, application, each) for each in application.variables])


def write_variables(world: World, request: Request, uuid: str) -> Answer:
    """Not transactional: what stands before a wrong item has been written."""
    application = found(world, uuid)
    items = read_json(request).get("data")
    if not isinstance(items, list) or not items:
        return http.message(400, "Bulk data is required.")
    written = []
    for item in items:
        variable = world.variables.write(application, _variable(item))
        written.append(shown.variable(world, application, variable))
    return http.data(written, 201)


def _variable(item: object) -> Written:
    if not isinstance(item, dict):
        raise Refusal(http.invalid({"data": ["The data field must be an array of objects."]}))
    sorts = {"key": "string", "value": "string"} | dict.fromkeys(_FLAGS, "boolean")
    known = {name: item[name] for name in sorts if item.get(name) is not None}
    if problems := fields.problems(known, sorts, ["key"]):
        raise Refusal(http.invalid(problems))
    return Written(
        key=known["key"].replace(" ", "_"),
        value=known.get("value"),
        **{flag: known.get(flag, False) in (True, "1") for flag in _FLAGS},
    )


def _check_place(world: World, wanted: Mapping[str, Any]) -> None:
    nature = world.nature
    environment = wanted.get("environment_name") or wanted.get("environment_uuid")
    require("Project", wanted["project_uuid"], nature.project)
    require("Environment", environment, nature.environment)
    require("Server", wanted["server_uuid"], nature.server)
    destination = wanted.get("destination_uuid")
    if destination is None:
        if len(nature.destinations) > 1:
            several = "Server has multiple destinations and you do not set destination_uuid."
            raise Refusal(http.message(400, several))
    elif destination not in nature.destinations:
        unknown = "Provided destination_uuid does not belong to the specified server."
        raise Refusal(http.invalid({"destination_uuid": unknown}))


def _description(wanted: Mapping[str, Any]) -> str | None:
    """What looks like a tag is cut off; what is too long is left to the database to refuse."""
    text = (wanted.get("description") or "").partition("<")[0].strip()
    if len(text) > _LONGEST_DESCRIPTION:
        raise Refusal(http.message(500, "Server Error"))
    return text or None


def _image(wanted: Mapping[str, Any]) -> tuple[str, str]:
    """A tag may stand in the name; one that is given by itself counts more."""
    name: str = wanted["docker_registry_image_name"]
    base, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        base, tag = name, ""
    return base, wanted.get("docker_registry_image_tag") or tag or "latest"


def _settings(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if name not in _NOT_SETTINGS}
