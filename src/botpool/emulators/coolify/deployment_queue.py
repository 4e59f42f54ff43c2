"""The deployment queue: wait for a build slot, pull the image, replace the container, finish.

A start is always a full deployment with a pull. A deployment is `in_progress` as soon as the limit
of concurrent builds admits it, although a worker takes it later. A stop or a delete of the
application does not end a deployment in progress; only a cancel or a restart of Coolify does. A
cancel changes the status at once, while the job continues to its next command.
"""

from collections import Counter
from enum import Enum, auto
from functools import partial

from botpool.emulators.coolify.containers import Containers
from botpool.emulators.coolify.environment_variables import EnvironmentTooLarge, VariableStore
from botpool.emulators.coolify.records import Application, Deployment, DeploymentStatus
from botpool.emulators.coolify.simulation import Simulation
from botpool.emulators.coolify.worker_pool import WorkerPool

_COMMAND_S = 1.0
"""The duration of the command that replaces the container."""


class NotQueued(Enum):
    """Why a start created no deployment."""

    ALREADY_OPEN = auto()
    QUEUE_FULL = auto()
    PHANTOM = auto()


class DeploymentQueue:
    def __init__(
        self,
        simulation: Simulation,
        containers: Containers,
        variables: VariableStore,
        workers: WorkerPool,
    ) -> None:
        self._simulation = simulation
        self._variables = variables
        self._faults = simulation.faults
        self._config = simulation.config
        self._after = simulation.scheduler.after
        self._containers = containers
        self._workers = workers
        self._open: dict[str, Deployment] = {}
        self.by_uuid: dict[str, Deployment] = {}
        self.images: set[str] = set()
        """Images on the server's disk."""
        self.pulls: Counter[str] = Counter()
        """Downloads of images that were not on the server's disk, including failed ones."""

    @property
    def open(self) -> tuple[Deployment, ...]:
        return tuple(self._open.values())

    def queue(self, application: Application) -> Deployment | NotQueued:
        uuid = application.uuid
        if application.open_deployment or self._faults.trigger(
            "startWithoutUuid", application=uuid
        ):
            return NotQueued.ALREADY_OPEN
        if self._faults.trigger("phantomUuid", application=uuid):
            return NotQueued.PHANTOM
        waiting = sum(d.status is DeploymentStatus.QUEUED for d in self._open.values())
        if waiting >= self._config.queue_limit:
            return NotQueued.QUEUE_FULL
        deployment = Deployment(
            uuid=self._simulation.randomness.uuid(),
            application=application,
            hung=self._faults.trigger("hangQueued", application=uuid) is not None,
            created_at=self._simulation.now,
            updated_at=self._simulation.now,
        )
        self.by_uuid[deployment.uuid] = deployment
        self._open[deployment.uuid] = deployment
        application.deployments.append(deployment)
        self._dispatch()
        return deployment

    def cancel(self, deployment: Deployment) -> bool:
        """Cancel a deployment. Return False if it has already ended."""
        if not deployment.status.is_open:
            return False
        uuid = deployment.application.uuid
        if deployment.status is DeploymentStatus.IN_PROGRESS:
            fault = self._faults.trigger("cancelLeavesRunning", application=uuid)
            deployment.unstoppable = fault is not None
        self._end(deployment, DeploymentStatus.CANCELLED)
        return True

    def fail_all(self) -> None:
        """Fail all open deployments, as a restart of Coolify does."""
        for deployment in self.open:
            self._end(deployment, DeploymentStatus.FAILED)

    def _dispatch(self) -> None:
        """Admit deployments to the workers. Requests at the same moment can exceed the limit."""
        in_progress = sum(d.dispatched for d in self._open.values())
        for deployment in self._open.values():
            if deployment.dispatched or deployment.hung:
                continue
            has_room = in_progress < self._config.concurrent_builds
            uuid = deployment.application.uuid
            if has_room or self._faults.trigger("exceedsBuildLimit", application=uuid):
                deployment.dispatched = True
                in_progress += 1
                self._set_status(deployment, DeploymentStatus.IN_PROGRESS)
                self._workers.submit(partial(self._begin, deployment))

    def _begin(self, deployment: Deployment) -> None:
        if deployment.status is not DeploymentStatus.IN_PROGRESS:
            self._workers.release()
            return
        deployment.has_worker = True
        application = deployment.application
        uuid, image = application.uuid, application.image_and_tag
        # A variable that is written after this moment reaches the next deployment.
        try:
            deployment.environment = self._variables.container_environment(application)
        except EnvironmentTooLarge:
            self._after(self._config.failure_s, lambda: self._fail(deployment))
            return
        if self._faults.trigger("hangInProgress", application=uuid):
            deployment.hung = True
            return
        impossible = (
            application.deleted
            or not self._simulation.server_reachable
            or self._faults.active("registryDown")
            or self._faults.trigger("pullFails", application=uuid, image=image)
        )
        if impossible:
            self._after(self._config.failure_s, lambda: self._fail(deployment))
            return
        pull_s = 0.0
        if image not in self.images:
            slow = self._faults.trigger("pullSlow", application=uuid, image=image)
            usual_s = self._config.pull_s
            pull_s = slow.number() if slow else usual_s
            self.pulls[image] += 1
        self._after(pull_s, lambda: self._finish_pull(deployment, image))

    def _finish_pull(self, deployment: Deployment, image: str) -> None:
        if not self._continues(deployment):
            return
        self.images.add(image)
        start_s = self._simulation.randomness.between(self._config.start_s)
        rest_s = max(start_s - _COMMAND_S, 0.0)
        self._after(rest_s, lambda: self._begin_last_command(deployment))

    def _begin_last_command(self, deployment: Deployment) -> None:
        """Run the command that replaces the container; a cancel no longer prevents it."""
        if not self._continues(deployment):
            return
        deployment.unstoppable = True
        self._after(_COMMAND_S, lambda: self._replace_container(deployment))

    def _replace_container(self, deployment: Deployment) -> None:
        if deployment.status is DeploymentStatus.FAILED:
            return
        if not self._simulation.server_reachable:
            self._fail(deployment)
            return
        old = tuple(deployment.application.containers)
        if not old:
            self._start_container(deployment)
            return
        stops_old_first = deployment.application.stops_old_container_first
        if not stops_old_first:
            self._start_container(deployment)
        self._containers.request_stop(old)

        def remove_old() -> None:
            self._containers.remove(old)
            if stops_old_first and deployment.status is not DeploymentStatus.FAILED:
                self._start_container(deployment)

        stops_in_s = self._simulation.randomness.between(self._config.stop_s)
        self._after(min(stops_in_s, deployment.application.stop_grace_s), remove_old)

    def _start_container(self, deployment: Deployment) -> None:
        container = self._containers.start(deployment.application, deployment.environment)
        uuid = deployment.application.uuid
        if crash := self._faults.trigger("crashLoop", application=uuid):
            self._containers.crash_loop(container, after_s=crash.number())
        self._after(self._config.finish_s, lambda: self._finish(deployment))

    def _continues(self, deployment: Deployment) -> bool:
        """Whether the job runs its next command; else it ends and frees its worker."""
        if deployment.status is DeploymentStatus.IN_PROGRESS or deployment.unstoppable:
            return True
        self._release_worker(deployment)
        return False

    def _finish(self, deployment: Deployment) -> None:
        if deployment.status is DeploymentStatus.IN_PROGRESS:
            self._end(deployment, DeploymentStatus.FINISHED)
        else:
            self._release_worker(deployment)
            self._containers.publish(deployment.application)

    def _fail(self, deployment: Deployment) -> None:
        if deployment.status is DeploymentStatus.IN_PROGRESS:
            self._end(deployment, DeploymentStatus.FAILED)
        else:
            self._release_worker(deployment)

    def _end(self, deployment: Deployment, status: DeploymentStatus) -> None:
        self._set_status(deployment, status)
        del self._open[deployment.uuid]
        # The job of a cancelled deployment keeps its worker until its next command.
        if status is not DeploymentStatus.CANCELLED or deployment.hung:
            self._release_worker(deployment)
        self._containers.publish(deployment.application)
        self._dispatch()

    def _release_worker(self, deployment: Deployment) -> None:
        if deployment.has_worker:
            deployment.has_worker = False
            self._workers.release()

    def _set_status(self, deployment: Deployment, status: DeploymentStatus) -> None:
        deployment.status = status
        deployment.updated_at = self._simulation.now
