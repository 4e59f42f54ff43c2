"""The containers on the server, and the statuses that Coolify reports for them.

A reported status follows the real state with a lag of up to a minute.
"""

from collections.abc import Iterable, Mapping

from botpool.emulators.coolify.records import EXITED, Application, Container, ContainerState
from botpool.emulators.coolify.simulation import Simulation


class Containers:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._containers: dict[Container, None] = {}

    @property
    def running(self) -> tuple[Container, ...]:
        """All running containers, including those of deleted applications."""
        return tuple(c for c in self._containers if c.state is ContainerState.RUNNING)

    def start(self, application: Application, environment: Mapping[str, str]) -> Container:
        """Start a container; no status reports it before `publish`."""
        handle = self._simulation.runtime.start(application.uuid, environment)
        container = Container(application=application, environment=dict(environment), handle=handle)
        self._containers[container] = None
        application.containers.append(container)
        application.falsely_stopped = False
        return container

    def publish(self, application: Application) -> None:
        """Let the next status refresh see the containers of a deployment that has ended."""
        for container in application.containers:
            if not container.published:
                container.published = True
                self._schedule_health_check(container)
        self.schedule_status_refresh(application)

    def request_stop(self, containers: Iterable[Container]) -> None:
        for container in containers:
            if container.state is ContainerState.RUNNING:
                self._simulation.runtime.request_stop(container.handle)

    def remove(self, containers: Iterable[Container]) -> None:
        for container in tuple(containers):
            if container.state is not ContainerState.GONE:
                self._simulation.runtime.stop(container.handle)
                self._forget(container)

    def crash_loop(self, container: Container, *, after_s: float, times: int) -> None:
        """Crash the container repeatedly; Docker restarts it up to `times` times."""
        runtime, scheduler = self._simulation.runtime, self._simulation.scheduler

        def crash() -> None:
            if container.state is not ContainerState.RUNNING:
                return
            runtime.stop(container.handle)
            if container.restarts >= times:
                self._forget(container)
                return
            container.state = ContainerState.RESTARTING
            self.schedule_status_refresh(container.application)
            scheduler.after(2 * after_s, restart)

        def restart() -> None:
            if container.state is not ContainerState.RESTARTING:
                return
            container.handle = runtime.start(container.application.uuid, container.environment)
            container.state = ContainerState.RUNNING
            container.restarts += 1
            self.schedule_status_refresh(container.application)
            scheduler.after(after_s, crash)

        scheduler.after(after_s, crash)

    def remove_exited(self) -> None:
        """Remove the containers whose program has exited."""
        for container in self.running:
            if not self._simulation.runtime.is_running(container.handle):
                # Child processes may be left: the runtime's stop ends them.
                self.remove([container])

    def schedule_status_refresh(self, application: Application) -> None:
        bounds = self._simulation.config.status_lag_s
        if fault := self._simulation.faults.active("statusLag"):
            bounds = fault.number("minSeconds"), fault.number("maxSeconds")
        lag_s = self._simulation.randomness.between(bounds)
        self._simulation.scheduler.after(lag_s, lambda: self.refresh_status(application))

    def refresh_status(self, application: Application) -> None:
        application.status = self._observed_status(application)

    def reported_status(self, application: Application) -> str:
        """Return the status for an API response."""
        fault = self._simulation.faults.trigger("reportStatus", application=application.uuid)
        return fault.text("status") if fault else application.status

    def _observed_status(self, application: Application) -> str:
        if not self._simulation.server_reachable or application.falsely_stopped:
            return EXITED
        published = [c for c in application.containers if c.published]
        for container in reversed(published):
            if container.state is ContainerState.RUNNING:
                return f"running:{container.health}"
        return "restarting:unknown" if published else EXITED

    def _forget(self, container: Container) -> None:
        container.state = ContainerState.GONE
        self._containers.pop(container, None)
        container.application.containers.remove(container)
        self.schedule_status_refresh(container.application)

    def _schedule_health_check(self, container: Container) -> None:
        application = container.application
        if not application.settings.get("health_check_enabled"):
            return
        fails = self._simulation.faults.trigger("healthCheckFails", application=application.uuid)

        def finish_check() -> None:
            container.health = "unhealthy" if fails else "healthy"
            self.refresh_status(application)

        lag_s = self._simulation.randomness.between(self._simulation.config.health_lag_s)
        self._simulation.scheduler.after(lag_s, finish_check)
