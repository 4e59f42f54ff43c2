"""API handlers for applications and their environment variables."""

from collections.abc import Mapping
from typing import Any

import httpx

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify import serializers, validation
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.endpoints import Ability, endpoint
from botpool.emulators.coolify.http_messages import RequestRejected
from botpool.emulators.coolify.records import Application
from botpool.emulators.coolify.server_handlers import require

_REQUIRED = ("project_uuid", "server_uuid", "docker_registry_image_name")
_LOCATION = {*_REQUIRED, "environment_name", "environment_uuid", "destination_uuid"}
_OWN_COLUMNS = {"name", "description", "docker_registry_image_tag", "tags"}
_ACTIONS = {"domains", "instant_deploy", "autogenerate_domain", "force_domain_override"}
_NOT_SETTINGS = _LOCATION | _OWN_COLUMNS | _ACTIONS
_MAX_DESCRIPTION_LENGTH = 255
_MAX_LOG_LINES = 10_000
_FLAGS = ("is_preview", "is_literal", "is_multiline", "is_shown_once")


def find_application(coolify: EmulatedCoolify, uuid: str) -> Application:
    application = coolify.applications.get(uuid)
    if application is None:
        raise http.not_found("Application")
    return application


@endpoint("GET /applications", Ability.READ)
def list_all(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    tag = request.url.params.get("tag")
    return http.data(
        [
            serializers.application(coolify, application)
            for application in coolify.applications.values()
            if not tag or tag in application.tags
        ]
    )


@endpoint("GET /applications/{uuid}", Ability.READ)
def show(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    return http.data(serializers.application(coolify, find_application(coolify, uuid)))


@endpoint("POST /applications/dockerimage", Ability.WRITE)
def create(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    sent = validation.read_json(request)
    errors = validation.validate(sent, validation.CREATE, _REQUIRED)
    if not sent.get("environment_name") and not sent.get("environment_uuid"):
        both = "You need to provide at least one of environment_name or environment_uuid."
        errors.setdefault("environment_name", [both])
    if errors:
        return http.invalid(errors)
    _check_location(coolify, sent)
    description = _description(sent)
    image, tag = _image(sent)
    application = coolify.create_application(
        name=sent.get("name"),
        image=image,
        tag=tag,
        description=description,
        tags=tuple(str(tag).lower() for tag in sent.get("tags") or ()),
        settings=_settings(sent),
        with_domain=sent.get("autogenerate_domain", True) and not sent.get("domains"),
    )
    if sent.get("instant_deploy"):
        coolify.deployments.queue(application)
    return http.data({"uuid": application.uuid, "domains": application.fqdn}, 201)


@endpoint("PATCH /applications/{uuid}", Ability.WRITE)
def update(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    application = find_application(coolify, uuid)
    sent = validation.read_json(request)
    if errors := validation.validate(sent, validation.UPDATE):
        return http.invalid(errors)
    if "description" in sent:
        application.description = _description(sent)
    if sent.get("name"):
        application.name = sent["name"]
    if sent.get("docker_registry_image_name"):
        application.image, application.tag = _image(
            {"docker_registry_image_tag": application.tag} | sent
        )
    elif sent.get("docker_registry_image_tag"):
        application.tag = sent["docker_registry_image_tag"]
    application.settings |= _settings(sent)
    application.updated_at = coolify.now
    if sent.get("instant_deploy"):
        coolify.deployments.queue(application)
    return http.data({"uuid": application.uuid})


@endpoint("DELETE /applications/{uuid}", Ability.WRITE)
def delete(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    coolify.delete_application(find_application(coolify, uuid))
    return http.message(200, "Application deletion request queued.")


@endpoint("POST /applications/{uuid}/stop", Ability.DEPLOY)
def stop(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    coolify.removal.stop(find_application(coolify, uuid))
    return http.message(200, "Application stopping request queued.")


@endpoint("GET /applications/{uuid}/logs", Ability.READ)
def logs(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    application = find_application(coolify, uuid)
    if not application.status.startswith("running") or not application.containers:
        return http.message(400, "Application is not running.")
    requested = request.url.params.get("lines", "100")
    lines = int(requested) if requested.isascii() and requested.isdecimal() else 100
    output = coolify.runtime.output(application.containers[-1].handle, min(lines, _MAX_LOG_LINES))
    return http.data({"logs": output})


@endpoint("GET /applications/{uuid}/envs", Ability.READ)
def list_variables(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    application = find_application(coolify, uuid)
    return http.data([serializers.variable(coolify, each) for each in application.variables])


@endpoint("PATCH /applications/{uuid}/envs/bulk", Ability.WRITE)
def write_variables(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    """Write variables one by one: an invalid item does not undo those before it."""
    application = find_application(coolify, uuid)
    items = validation.read_json(request).get("data")
    if not isinstance(items, list) or not items:
        return http.message(400, "Bulk data is required.")
    written = []
    for item in items:
        variable = coolify.variables.write(application, _variable(item))
        written.append(serializers.variable(coolify, variable))
    return http.data(written, 201)


def _variable(item: object) -> dict[str, Any]:
    """Return the validated fields of a variable."""
    if not isinstance(item, dict):
        raise RequestRejected(
            http.invalid({"data": ["The data field must be an array of objects."]})
        )
    types = {"key": "string", "value": "string"} | dict.fromkeys(_FLAGS, "boolean")
    known = {name: item[name] for name in types if item.get(name) is not None}
    if errors := validation.validate(known, types, ["key"]):
        raise RequestRejected(http.invalid(errors))
    flags = {flag: known.get(flag, False) in (True, "1") for flag in _FLAGS}
    return {"key": known["key"].replace(" ", "_"), "value": known.get("value"), **flags}


def _check_location(coolify: EmulatedCoolify, sent: Mapping[str, Any]) -> None:
    config = coolify.config
    environment = sent.get("environment_name") or sent.get("environment_uuid")
    require("Project", sent["project_uuid"], config.project)
    require("Environment", environment, config.environment)
    require("Server", sent["server_uuid"], config.server)
    destination = sent.get("destination_uuid")
    if destination is None:
        if len(config.destinations) > 1:
            several = "Server has multiple destinations and you do not set destination_uuid."
            raise RequestRejected(http.message(400, several))
    elif destination not in config.destinations:
        unknown = "Provided destination_uuid does not belong to the specified server."
        raise RequestRejected(http.invalid({"destination_uuid": unknown}))


def _description(sent: Mapping[str, Any]) -> str | None:
    """Cut the text at the first `<`, as Coolify does; a longer text is a database error there."""
    text = (sent.get("description") or "").partition("<")[0].strip()
    if len(text) > _MAX_DESCRIPTION_LENGTH:
        raise RequestRejected(http.message(500, "Server Error"))
    return text or None


def _image(sent: Mapping[str, Any]) -> tuple[str, str]:
    """Return name and tag; a separate tag overrides a tag within the name."""
    name: str = sent["docker_registry_image_name"]
    base, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        base, tag = name, ""
    return base, sent.get("docker_registry_image_tag") or tag or "latest"


def _settings(sent: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sent.items() if name not in _NOT_SETTINGS}
