"""The containers on the server, and the statuses that Coolify reports for them.

Docker restarts every container whose program ends, also after exit code 0, unless it was stopped;
Coolify stops an application whose container restarted too often. A reported status follows the real
state with a lag.
"""

from collections.abc import Iterable, Mapping

from botpool.emulators.coolify.records import EXITED, Application, Container, ContainerState
from botpool.emulators.coolify.simulation import Simulation

_FIRST_BACKOFF_S = 0.1
"""Docker's pause before a restart. It doubles with each restart."""
_MAX_BACKOFF_S = 60.0
_FALSE_STATUS_S = 120.0
_BACKOFF_RESET_S = 10.0
"""A container that ran for so long gets the first pause again."""


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
        container = Container(
            application=application,
            environment=dict(environment),
            handle=handle,
            started_at=self._simulation.now,
            backoff_s=_FIRST_BACKOFF_S,
        )
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
            if container.state is not ContainerState.GONE:
                container.stopping = True
            if container.state is ContainerState.RUNNING:
                self._simulation.runtime.request_stop(container.handle)

    def remove(self, containers: Iterable[Container]) -> None:
        for container in tuple(containers):
            if container.state is not ContainerState.GONE:
                self._simulation.runtime.stop(container.handle)
                self._forget(container)

    def crash_loop(self, container: Container, *, after_s: float) -> None:
        """Crash the container `after_s` after its start and after each restart."""
        container.crashes_after_s = after_s
        self._schedule_crash(container)

    def restart_exited(self) -> None:
        """Restart the containers whose program has exited, unless they were stopped."""
        for container in self.running:
            if not self._simulation.runtime.is_running(container.handle):
                self._handle_exit(container)

    def _handle_exit(self, container: Container) -> None:
        # Child processes may be left: the runtime's stop ends them.
        self._simulation.runtime.stop(container.handle)
        limit = container.application.max_restart_count
        if container.stopping or 0 < limit <= container.restarts:
            self._forget(container)
            return
        ran_s = self._simulation.now - container.started_at
        if ran_s >= _BACKOFF_RESET_S:
            container.backoff_s = _FIRST_BACKOFF_S
        container.state = ContainerState.RESTARTING
        self.schedule_status_refresh(container.application)
        self._simulation.scheduler.after(container.backoff_s, lambda: self._restart(container))
        container.backoff_s = min(2 * container.backoff_s, _MAX_BACKOFF_S)

    def _restart(self, container: Container) -> None:
        if container.state is not ContainerState.RESTARTING:
            return
        runtime, application = self._simulation.runtime, container.application
        container.handle = runtime.start(application.uuid, container.environment)
        container.state = ContainerState.RUNNING
        container.started_at = self._simulation.now
        container.restarts += 1
        self.schedule_status_refresh(application)
        self._schedule_crash(container)

    def _schedule_crash(self, container: Container) -> None:
        if container.crashes_after_s is None:
            return
        handle = container.handle

        def crash() -> None:
            if container.state is ContainerState.RUNNING and container.handle is handle:
                self._handle_exit(container)

        self._simulation.scheduler.after(container.crashes_after_s, crash)

    def report_stopped(self, application: Application) -> None:
        """Report a stop that did not happen, until a later refresh shows the containers again."""

        def correct() -> None:
            application.falsely_stopped = False
            self.schedule_status_refresh(application)

        application.falsely_stopped = True
        self.schedule_status_refresh(application)
        self._simulation.scheduler.after(_FALSE_STATUS_S, correct)

    def schedule_status_refresh(self, application: Application) -> None:
        bounds = self._simulation.config.status_lag_s
        if fault := self._simulation.faults.active("statusLag"):
            bounds = fault.number("minSeconds"), fault.number("maxSeconds")
        lag_s = self._simulation.randomness.between(bounds)
        after = self._simulation.scheduler.after
        after(lag_s, lambda: self.refresh_status(application))
        if old := self._simulation.faults.trigger("oldStatus", application=application.uuid):
            snapshot = application.status

            def push_old() -> None:
                application.status = snapshot
                after(max(bounds), lambda: self.refresh_status(application))

            after(lag_s + old.number(), push_old)

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
