"""A Coolify installation with one server, as a deterministic simulation without its own clock.

`advance` runs everything that is due until a time; every other method acts at the current time.
The same seed, times and calls give the same states, uuids included.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from botpool.emulators.coolify.config import EmulatorConfig
from botpool.emulators.coolify.container_runtime import ContainerRuntime, SimulatedRuntime
from botpool.emulators.coolify.containers import Containers
from botpool.emulators.coolify.deployment_queue import DeploymentQueue
from botpool.emulators.coolify.environment_variables import VariableStore
from botpool.emulators.coolify.rate_limits import MINUTE_S, RateLimitWindow
from botpool.emulators.coolify.records import EXITED, Application
from botpool.emulators.coolify.removal import ApplicationRemoval
from botpool.emulators.coolify.simulation import Simulation
from botpool.emulators.coolify.worker_pool import WorkerPool


class EmulatedCoolify(Simulation):
    def __init__(
        self,
        config: EmulatorConfig | None = None,
        *,
        seed: int = 0,
        runtime: ContainerRuntime | None = None,
    ) -> None:
        super().__init__(config or EmulatorConfig(), seed, runtime or SimulatedRuntime())
        workers = WorkerPool(self)
        self.containers = Containers(self)
        self.variables = VariableStore(self)
        self.deployments = DeploymentQueue(self, self.containers, self.variables, workers)
        self.removal = ApplicationRemoval(self, self.containers, workers)
        self.calls = RateLimitWindow()
        self.failed_calls = RateLimitWindow()
        self.applications: dict[str, Application] = {}
        self._requests: Counter[int] = Counter()
        self._refuses_until = 0.0

    @property
    def refuses_connections(self) -> bool:
        return self._refuses_until > self.now

    def advance(self, to: float) -> None:
        """Run everything that is due until `to`, then restart containers that have exited."""
        self.scheduler.advance(to)
        self.containers.restart_exited()

    def next_event_at(self) -> float | None:
        """Return the time of the next scheduled event, or None if no event is scheduled."""
        return self.scheduler.next_at()

    def count_request(self) -> None:
        self._requests[int(self.now // MINUTE_S)] += 1

    def requests_by_minute(self) -> list[int]:
        """Return the numbers of API requests from the first minute to the current one."""
        return [self._requests[minute] for minute in range(int(self.now // MINUTE_S) + 1)]

    def set_faults(self, wanted: object) -> None:
        """Set and clear faults in the format of `faults`. Raises InvalidFault."""
        self.faults.change(wanted, self._apply_fault)

    def _apply_fault(self, name: str) -> None:
        fault = self.faults.active(name)
        if name in ("refuseConnection", "restartCoolify"):
            self._refuses_until = self.now + fault.number() if fault else self.now
        if name == "restartCoolify" and fault:
            self.deployments.fail_all()
        if name == "serverUnreachable":
            for application in self.applications.values():
                if fault:
                    application.status = EXITED
                else:
                    # The server's own status changes at once; those of its containers lag.
                    self.containers.schedule_status_refresh(application)

    def create_application(
        self,
        *,
        name: str | None,
        image: str,
        tag: str,
        description: str | None = None,
        tags: tuple[str, ...] = (),
        settings: Mapping[str, Any] | None = None,
        with_domain: bool = False,
    ) -> Application:
        uuid = self.randomness.uuid()
        application = Application(
            uuid=uuid,
            name=name or f"docker-image-{uuid}",
            description=description,
            image=image,
            tag=tag,
            tags=tags,
            settings=dict(settings or {}),
            fqdn=f"http://{uuid}.127.0.0.1.sslip.io" if with_domain else None,
            created_at=self.now,
            updated_at=self.now,
        )
        self.applications[uuid] = application
        return application

    def delete_application(self, application: Application) -> None:
        uuid = application.uuid
        self.removal.delete(application, lambda: self.applications.pop(uuid, None))

    def run_without_deployment(self, application: Application) -> None:
        """Let an application run at once, as if another client had deployed it long ago."""
        self.containers.start(application, {"COOLIFY_RESOURCE_UUID": application.uuid})
        self.containers.publish(application)
        self.containers.refresh_status(application)
        self.deployments.images.add(application.image_and_tag)
