"""API handlers for applications and their environment variables."""

import httpx

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify import serializers
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.endpoints import Ability, endpoint
from botpool.emulators.coolify.http_messages import RequestRejected
from botpool.emulators.coolify.records import Application
from botpool.emulators.coolify.server_handlers import require
from botpool.emulators.coolify.validation import (
    ChangedApplication,
    NewApplication,
    SentTags,
    SentVariable,
    read_json,
    validate,
)

_MAX_DESCRIPTION_LENGTH = 255
_MAX_LOG_LINES = 10_000


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
    sent = validate(NewApplication, read_json(request))
    _check_location(coolify, sent)
    image, tag = _image(sent.docker_registry_image_name, sent.docker_registry_image_tag)
    application = coolify.create_application(
        name=sent.name,
        image=image,
        tag=tag,
        description=_description(sent.description),
        tags=tuple(tag.lower() for tag in sent.tags),
        settings=sent.settings(),
        with_domain=sent.autogenerate_domain and not sent.domains,
    )
    if sent.instant_deploy:
        coolify.deployments.queue(application)
    return http.data({"uuid": application.uuid, "domains": application.fqdn}, 201)


@endpoint("PATCH /applications/{uuid}", Ability.WRITE)
def update(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    application = find_application(coolify, uuid)
    sent = validate(ChangedApplication, read_json(request))
    if "description" in sent.model_fields_set:
        application.description = _description(sent.description)
    application.name = sent.name or application.name
    application.tag = sent.docker_registry_image_tag or application.tag
    if sent.docker_registry_image_name:
        name = sent.docker_registry_image_name
        application.image, application.tag = _image(name, application.tag)
    application.settings |= sent.settings()
    application.updated_at = coolify.now
    if sent.instant_deploy:
        coolify.deployments.queue(application)
    return http.data({"uuid": application.uuid})


@endpoint("GET /applications/{uuid}/tags", Ability.READ)
def list_tags(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    return http.data(serializers.tags(find_application(coolify, uuid)))


@endpoint("POST /applications/{uuid}/tags", Ability.WRITE)
def add_tags(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    """Add tags; those that the application has already stay."""
    application = find_application(coolify, uuid)
    sent = validate(SentTags, read_json(request))
    application.tags = tuple(dict.fromkeys((*application.tags, *sent.names)))
    return http.data(serializers.tags(application), 201)


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
    items = read_json(request).get("data")
    if not isinstance(items, list) or not items:
        return http.message(400, "Bulk data is required.")
    written = []
    for item in items:
        sent = validate(SentVariable, item).model_dump()
        sent["key"] = sent["key"].replace(" ", "_")
        variable = coolify.variables.write(application, sent)
        written.append(serializers.variable(coolify, variable))
    return http.data(written, 201)


@endpoint("DELETE /applications/{uuid}/envs/{env_uuid}", Ability.WRITE)
def delete_variable(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    application = find_application(coolify, uuid)
    if not coolify.variables.delete(application, request.url.path.rpartition("/")[2]):
        raise http.not_found("Environment variable")
    return http.message(200, "Environment variable deleted.")


def _check_location(coolify: EmulatedCoolify, sent: NewApplication) -> None:
    config = coolify.config
    environment = sent.environment_name or sent.environment_uuid
    if environment is None:
        both = "You need to provide at least one of environment_name or environment_uuid."
        raise RequestRejected(http.invalid({"environment_name": [both]}))
    require("Project", sent.project_uuid, config.project)
    require("Environment", environment, config.environment)
    require("Server", sent.server_uuid, config.server)
    if sent.destination_uuid is None:
        if len(config.destinations) > 1:
            several = "Server has multiple destinations and you do not set destination_uuid."
            raise RequestRejected(http.message(400, several))
    elif sent.destination_uuid not in config.destinations:
        unknown = "Provided destination_uuid does not belong to the specified server."
        raise RequestRejected(http.invalid({"destination_uuid": unknown}))


def _description(sent: str | None) -> str | None:
    """Cut the text at the first `<`, as Coolify does; a longer text is a database error there."""
    text = (sent or "").partition("<")[0].strip()
    if len(text) > _MAX_DESCRIPTION_LENGTH:
        raise RequestRejected(http.message(500, "Server Error"))
    return text or None


def _image(name: str, tag: str | None) -> tuple[str, str]:
    """Return name and tag; a separate tag overrides a tag within the name."""
    base, colon, tag_in_name = name.rpartition(":")
    if not colon or "/" in tag_in_name:
        base, tag_in_name = name, ""
    return base, tag or tag_in_name or "latest"
