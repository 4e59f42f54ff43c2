"""Deployments: the queue, the pull, the container, the end.

A start is always a full deployment with a pull. What is under way goes on whatever is asked of the
application meanwhile: neither a stop nor a delete ends it, only a cancel or a restart of Coolify.
"""

import itertools
from collections import Counter
from enum import Enum, auto

from botpool.emulators.coolify import variables
from botpool.emulators.coolify.fleet import Fleet
from botpool.emulators.coolify.records import Application, Deployment, DeploymentStatus
from botpool.emulators.coolify.scene import Scene
from botpool.emulators.coolify.workers import Release, Workers


class NotQueued(Enum):
    """Why a start made no deployment."""

    ONE_IS_OPEN = auto()
    QUEUE_FULL = auto()
    PHANTOM = auto()


class Deployments:
    def __init__(self, scene: Scene, fleet: Fleet, workers: Workers) -> None:
        self._scene = scene
        self._fleet = fleet
        self._workers = workers
        self._ids = itertools.count(1)
        self._open: dict[str, Deployment] = {}
        self._releases: dict[str, Release] = {}
        self.by_uuid: dict[str, Deployment] = {}
        self.images: set[str] = set()
        """On the server's disk."""
        self.pulls: Counter[str] = Counter()
        """Downloads of an image that was not on the server's disk, however they ended."""

    @property
    def open(self) -> tuple[Deployment, ...]:
        return tuple(self._open.values())

    def queue(
        self, application: Application, *, restart_only: bool = False, force: bool = False
    ) -> Deployment | NotQueued:
        faults, uuid = self._scene.faults, application.uuid
        if application.open_deployment or faults.hit("startWithoutUuid", application=uuid):
            return NotQueued.ONE_IS_OPEN
        if faults.hit("phantomUuid", application=uuid):
            return NotQueued.PHANTOM
        waiting = sum(d.status is DeploymentStatus.QUEUED for d in self._open.values())
        if waiting >= self._scene.nature.queue_limit:
            return NotQueued.QUEUE_FULL
        deployment = Deployment(
            id=next(self._ids),
            uuid=self._scene.chance.uuid(),
            application=application,
            restart_only=restart_only,
            force_rebuild=force,
            hung=faults.hit("hangQueued", application=uuid) is not None,
            created_at=self._scene.now,
            updated_at=self._scene.now,
        )
        self.by_uuid[deployment.uuid] = deployment
        self._open[deployment.uuid] = deployment
        application.deployments.append(deployment)
        self._dispatch()
        return deployment

    def cancel(self, deployment: Deployment) -> bool:
        """False when it was over already."""
        if not deployment.status.is_open:
            return False
        uuid = deployment.application.uuid
        if deployment.status is DeploymentStatus.IN_PROGRESS:
            fault = self._scene.faults.hit("cancelLeavesRunning", application=uuid)
            deployment.unstoppable = fault is not None
        self._end(deployment, DeploymentStatus.CANCELLED)
        return True

    def fail_all(self) -> None:
        """Coolify restarts: whatever was open has failed."""
        for deployment in self.open:
            self._end(deployment, DeploymentStatus.FAILED)

    def _dispatch(self) -> None:
        under_way = sum(d.dispatched for d in self._open.values())
        for deployment in self._open.values():
            if under_way >= self._scene.nature.concurrent_builds:
                return
            if not deployment.dispatched and not deployment.hung:
                deployment.dispatched = True
                under_way += 1
                self._submit(deployment)

    def _submit(self, deployment: Deployment) -> None:
        def begin(release: Release) -> None:
            if deployment.status is not DeploymentStatus.QUEUED:
                release()
                return
            self._releases[deployment.uuid] = release
            self._begin(deployment)

        self._workers.submit(begin)

    def _begin(self, deployment: Deployment) -> None:
        application, nature, faults = deployment.application, self._scene.nature, self._scene.faults
        uuid, image = application.uuid, application.image_and_tag
        self._set_status(deployment, DeploymentStatus.IN_PROGRESS)
        # Read now: what is written after this reaches the next deployment.
        deployment.environment = variables.delivered(application)
        if faults.hit("hangInProgress", application=uuid):
            return
        impossible = (
            application.gone
            or not self._scene.server_reachable
            or faults.lasting("registryDown")
            or faults.hit("pullFails", application=uuid, image=image)
        )
        if impossible:
            self._scene.agenda.after(nature.failure_s, lambda: self._fail(deployment))
            return
        pull_s = 0.0
        if image not in self.images:
            slow = faults.hit("pullSlow", application=uuid, image=image)
            pull_s = slow.seconds() if slow else max(nature.first_start_s - nature.start_s, 0.0)
            self.pulls[image] += 1
        self._scene.agenda.after(pull_s, lambda: self._pulled(deployment, image))

    def _pulled(self, deployment: Deployment, image: str) -> None:
        if not self._goes_on(deployment):
            return
        self.images.add(image)
        nature = self._scene.nature
        rest_s = nature.start_s - nature.pick_up_s
        self._scene.agenda.after(rest_s, lambda: self._replace_container(deployment))

    def _replace_container(self, deployment: Deployment) -> None:
        if not self._goes_on(deployment):
            return
        if not self._scene.server_reachable:
            self._fail(deployment)
            return
        old = tuple(deployment.application.containers)
        if not old:
            self._launch(deployment)
            return
        if not deployment.application.replaces_container:
            self._launch(deployment)
        self._fleet.ask_to_stop(old)

        def stopped() -> None:
            self._fleet.remove(old)
            if deployment.application.replaces_container and self._goes_on(deployment):
                self._launch(deployment)

        self._scene.agenda.after(self._scene.chance.between(self._scene.nature.stop_s), stopped)

    def _launch(self, deployment: Deployment) -> None:
        container = self._fleet.start(deployment.application, deployment.environment)
        uuid = deployment.application.uuid
        if crash := self._scene.faults.hit("crashLoop", application=uuid):
            self._fleet.crash_again_and_again(
                container, after_s=crash.seconds(), times=int(crash.seconds("restarts"))
            )
        self._scene.agenda.after(self._scene.nature.finish_s, lambda: self._finish(deployment))

    def _goes_on(self, deployment: Deployment) -> bool:
        return deployment.status is DeploymentStatus.IN_PROGRESS or deployment.unstoppable

    def _finish(self, deployment: Deployment) -> None:
        if deployment.status is DeploymentStatus.IN_PROGRESS:
            self._end(deployment, DeploymentStatus.FINISHED)
        else:
            self._fleet.announce(deployment.application)

    def _fail(self, deployment: Deployment) -> None:
        if deployment.status is DeploymentStatus.IN_PROGRESS:
            self._end(deployment, DeploymentStatus.FAILED)

    def _end(self, deployment: Deployment, status: DeploymentStatus) -> None:
        self._set_status(deployment, status)
        del self._open[deployment.uuid]
        if release := self._releases.pop(deployment.uuid, None):
            release()
        self._fleet.announce(deployment.application)
        self._dispatch()

    def _set_status(self, deployment: Deployment, status: DeploymentStatus) -> None:
        deployment.status = status
        deployment.updated_at = self._scene.now
