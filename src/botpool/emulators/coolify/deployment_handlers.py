"""API handlers for starts and deployments."""

import httpx

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify import serializers
from botpool.emulators.coolify.application_handlers import find_application
from botpool.emulators.coolify.deployment_queue import NotQueued
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.endpoints import Ability, endpoint
from botpool.emulators.coolify.http_messages import RequestRejected
from botpool.emulators.coolify.records import Application, Deployment

_ALREADY = "Deployment already queued for this commit."
_QUEUE_FULL_RETRY_S = 60


@endpoint("POST /applications/{uuid}/restart", Ability.DEPLOY)
@endpoint("POST /applications/{uuid}/start", Ability.DEPLOY)
def start(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    """Queue a full deployment; a restart is the same."""
    result = coolify.deployments.queue(find_application(coolify, uuid))
    if result is NotQueued.ALREADY_OPEN:
        return http.message(200, _ALREADY)
    # Coolify creates the uuid before it queues the deployment and ignores the queue's result.
    deployment = _uuid_of(coolify, result)
    return http.message(200, "Deployment request queued.", deployment_uuid=deployment)


@endpoint("POST /deploy", Ability.DEPLOY)
def deploy(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    uuids = _split_list(request.url.params.get("uuid", ""))
    tags = _split_list(request.url.params.get("tag", ""))
    if uuids and tags:
        return http.message(400, "You can only use uuid or tag, not both.")
    if not uuids and not tags:
        return http.message(400, "You must provide uuid or tag.")
    applications = [
        coolify.applications[each] for each in uuids if each in coolify.applications
    ] or [each for each in coolify.applications.values() if set(tags) & set(each.tags)]
    if not applications:
        return http.message(404, "No resources found.")
    return http.data({"deployments": [_deploy_one(coolify, each) for each in applications]})


def _deploy_one(coolify: EmulatedCoolify, application: Application) -> dict[str, str]:
    result = coolify.deployments.queue(application)
    if result is NotQueued.QUEUE_FULL:
        full = http.message(429, "Deployment queue is full. Please try again later.")
        full.headers["Retry-After"] = str(_QUEUE_FULL_RETRY_S)
        raise RequestRejected(full)
    done = f"Application {application.name} deployment queued."
    message = _ALREADY if result is NotQueued.ALREADY_OPEN else done
    uuid = _uuid_of(coolify, result)
    return {"message": message, "resource_uuid": application.uuid, "deployment_uuid": uuid}


def _uuid_of(coolify: EmulatedCoolify, result: Deployment | NotQueued) -> str:
    """Return the deployment's uuid, or one that does not exist."""
    return result.uuid if isinstance(result, Deployment) else coolify.randomness.uuid()


@endpoint("GET /deployments", Ability.READ)
def list_open(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    items = [serializers.deployment(coolify, each) for each in coolify.deployments.open]
    if coolify.faults.active("deploymentsAsObject"):
        # PHP encodes a list whose keys have gaps as an object.
        return http.data({str(number): each for number, each in enumerate(items, 1)})
    return http.data(items)


@endpoint("GET /deployments/applications/{uuid}", Ability.READ)
def list_of_application(
    coolify: EmulatedCoolify, request: httpx.Request, uuid: str
) -> httpx.Response:
    application = find_application(coolify, uuid)
    skip = _read_number(request, "skip", default=0, minimum=0)
    take = _read_number(request, "take", default=10, minimum=1)
    newest_first = application.deployments[::-1]
    return http.data(
        {
            "count": len(newest_first),
            "deployments": [
                serializers.deployment(coolify, each) for each in newest_first[skip : skip + take]
            ],
        }
    )


@endpoint("GET /deployments/{uuid}", Ability.READ)
def show(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    return http.data(serializers.deployment(coolify, _find_deployment(coolify, uuid)))


@endpoint("POST /deployments/{uuid}/cancel", Ability.DEPLOY)
def cancel(coolify: EmulatedCoolify, request: httpx.Request, uuid: str) -> httpx.Response:
    deployment = _find_deployment(coolify, uuid)
    if not coolify.deployments.cancel(deployment):
        current = f"Current status: {deployment.status.value}"
        return http.message(400, f"Deployment cannot be cancelled. {current}")
    if coolify.faults.trigger("cancelAnswers500", application=deployment.application.uuid):
        return http.message(500, "Server Error")
    return http.data(
        {
            "message": "Deployment cancelled successfully.",
            "deployment_uuid": deployment.uuid,
            "status": deployment.status.value,
        }
    )


def _find_deployment(coolify: EmulatedCoolify, uuid: str) -> Deployment:
    deployment = coolify.deployments.by_uuid.get(uuid)
    if deployment is None:
        raise http.not_found("Deployment")
    return deployment


def _split_list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _read_number(request: httpx.Request, name: str, *, default: int, minimum: int) -> int:
    text = request.url.params.get(name, str(default))
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= minimum:
        return int(text)
    raise RequestRejected(http.invalid({name: [f"The {name} field must be at least {minimum}."]}))
