"""The calls about deployments, and those that make one."""

from botpool.emulators.coolify import http, shown
from botpool.emulators.coolify.application_calls import found
from botpool.emulators.coolify.bodies import Refusal
from botpool.emulators.coolify.http import Answer, Request
from botpool.emulators.coolify.records import Application, Deployment
from botpool.emulators.coolify.world import NotQueued, World

_ALREADY = "Deployment already queued for this commit."
_FULL_RETRY_S = 60


def start(world: World, request: Request, uuid: str) -> Answer:
    force = request.flag("force", default=False)
    result = world.start(found(world, uuid), force=force)
    return _started(world, result, "Deployment request queued.")


def restart(world: World, request: Request, uuid: str) -> Answer:
    result = world.start(found(world, uuid), restart_only=True)
    return _started(world, result, "Restart request queued.")


def _started(world: World, result: Deployment | NotQueued, done: str) -> Answer:
    if result is NotQueued.ONE_IS_OPEN:
        return http.message(200, _ALREADY)
    if isinstance(result, Deployment):
        return http.message(200, done, deployment_uuid=result.uuid)
    # The id was made before the queue was asked, and nobody looks at what the queue said.
    return http.message(200, done, deployment_uuid=world.scene.chance.uuid())


def deploy(world: World, request: Request, uuid: str) -> Answer:
    uuids = _split(request.query.get("uuid", ""))
    tags = _split(request.query.get("tag", ""))
    if uuids and tags:
        return http.message(400, "You can only use uuid or tag, not both.")
    if not uuids and not tags:
        return http.message(400, "You must provide uuid or tag.")
    chosen = [world.applications[each] for each in uuids if each in world.applications] or [
        each for each in world.applications.values() if set(tags) & set(each.tags)
    ]
    if not chosen:
        return http.message(404, "No resources found.")
    force = request.flag("force", default=False)
    deployments = [_deployed(world, application, force=force) for application in chosen]
    return http.data({"deployments": deployments})


def _deployed(world: World, application: Application, *, force: bool) -> dict[str, str]:
    result = world.start(application, force=force)
    if result is NotQueued.QUEUE_FULL:
        full = http.message(429, "Deployment queue is full. Please try again later.")
        raise Refusal(full.with_headers({"Retry-After": str(_FULL_RETRY_S)}))
    done = f"Application {application.name} deployment queued."
    text = _ALREADY if result is NotQueued.ONE_IS_OPEN else done
    uuid = result.uuid if isinstance(result, Deployment) else world.scene.chance.uuid()
    return {"message": text, "resource_uuid": application.uuid, "deployment_uuid": uuid}


def list_open(world: World, request: Request, uuid: str) -> Answer:
    listed = [shown.deployment(world, each) for each in world.deployments.open]
    if world.faults.lasting("deploymentsAsObject"):
        # PHP makes an object of a list whose keys have gaps.
        return http.data({str(number): each for number, each in enumerate(listed, 1)})
    return http.data(listed)


def list_of_application(world: World, request: Request, uuid: str) -> Answer:
    application = found(world, uuid)
    skip = _number(request, "skip", default=0, least=0)
    take = _number(request, "take", default=10, least=1)
    newest_first = application.deployments[::-1]
    return http.data(
        {
            "count": len(newest_first),
            "deployments": [
                shown.deployment(world, each) for each in newest_first[skip : skip + take]
            ],
        }
    )


def show(world: World, request: Request, uuid: str) -> Answer:
    return http.data(shown.deployment(world, _found_deployment(world, uuid)))


def cancel(world: World, request: Request, uuid: str) -> Answer:
    deployment = _found_deployment(world, uuid)
    if not world.cancel(deployment):
        current = f"Current status: {deployment.status.value}"
        return http.message(400, f"Deployment cannot be cancelled. {current}")
    if world.faults.hit("cancelAnswers500", application=deployment.application.uuid):
        return http.message(500, "Server Error")
    return http.data(
        {
            "message": "Deployment cancelled successfully.",
            "deployment_uuid": deployment.uuid,
            "status": deployment.status.value,
        }
    )


def _found_deployment(world: World, uuid: str) -> Deployment:
    deployment = world.deployments.by_uuid.get(uuid)
    if deployment is None:
        raise Refusal(http.message(404, "Deployment not found."))
    return deployment


def _split(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _number(request: Request, name: str, *, default: int, least: int) -> int:
    text = request.query.get(name, str(default))
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least:
        return int(text)
    raise Refusal(http.invalid({name: [f"The {name} field must be at least {least}."]}))
