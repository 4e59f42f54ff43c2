"""Containers as they are, and the statuses that are told of them.

The two are apart: a change of the truth is seen by Coolify's next look, up to a minute later.
"""

from collections.abc import Iterable, Mapping

from botpool.emulators.coolify.records import EXITED, Application, Container, ContainerState
from botpool.emulators.coolify.scene import Scene


class Fleet:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._containers: dict[Container, None] = {}

    @property
    def containers(self) -> tuple[Container, ...]:
        """All that exist, also those whose application is gone."""
        return tuple(self._containers)

    def start(self, application: Application, environment: Mapping[str, str]) -> Container:
        """A new container, of which no status tells before it is announced."""
        handle = self._scene.runtime.start(application.uuid, environment)
        container = Container(application=application, environment=dict(environment), handle=handle)
        self._containers[container] = None
        application.containers.append(container)
        application.lied_about = False
        return container

    def announce(self, application: Application) -> None:
        """The deployment is over: what it started is seen by the next look."""
        for container in application.containers:
            if not container.announced:
                container.announced = True
                self._check_health(container)
        self.look_later(application)

    def ask_to_stop(self, containers: Iterable[Container]) -> None:
        for container in containers:
            if container.state is ContainerState.RUNNING:
                self._scene.runtime.ask_to_stop(container.handle)

    def remove(self, containers: Iterable[Container]) -> None:
        for container in tuple(containers):
            if container.state is not ContainerState.GONE:
                self._scene.runtime.stop(container.handle)
                self._forget(container)

    def crash_again_and_again(self, container: Container, *, after_s: float, times: int) -> None:
        """Docker restarts what dies, until it has had enough."""

        def crash() -> None:
            if container.state is not ContainerState.RUNNING:
                return
            self._scene.runtime.stop(container.handle)
            if container.restarts >= times:
                self._forget(container)
                return
            container.state = ContainerState.RESTARTING
            self.look_later(container.application)
            self._scene.agenda.after(2 * after_s, restart)

        def restart() -> None:
            if container.state is not ContainerState.RESTARTING:
                return
            uuid = container.application.uuid
            container.handle = self._scene.runtime.start(uuid, container.environment)
            container.state = ContainerState.RUNNING
            container.restarts += 1
            self.look_later(container.application)
            self._scene.agenda.after(after_s, crash)

        self._scene.agenda.after(after_s, crash)

    def poll(self) -> None:
        """Notice what ended by itself."""
        for container in self.containers:
            running = container.state is ContainerState.RUNNING
            if running and not self._scene.runtime.is_running(container.handle):
                # Even of what has ended something may be left: the runtime clears it away.
                self.remove([container])

    def look_later(self, application: Application) -> None:
        self._scene.agenda.after(self._scene.status_lag(), lambda: self.look(application))

    def look(self, application: Application) -> None:
        application.status = self._seen(application)

    def told(self, application: Application) -> str:
        """The status in an answer."""
        fault = self._scene.faults.hit("reportStatus", application=application.uuid)
        return fault.text("status") if fault else application.status

    def _seen(self, application: Application) -> str:
        if not self._scene.server_reachable or application.lied_about:
            return EXITED
        seen = [c for c in application.containers if c.announced]
        for container in reversed(seen):
            if container.state is ContainerState.RUNNING:
                return f"running:{container.health}"
        return "restarting:unknown" if seen else EXITED

    def _forget(self, container: Container) -> None:
        container.state = ContainerState.GONE
        self._containers.pop(container, None)
        container.application.containers.remove(container)
        self.look_later(container.application)

    def _check_health(self, container: Container) -> None:
        application = container.application
        if not application.settings.get("health_check_enabled"):
            return
        fails = self._scene.faults.hit("healthCheckFails", application=application.uuid)

        def checked() -> None:
            container.health = "unhealthy" if fails else "healthy"
            self.look(application)

        self._scene.agenda.after(
            self._scene.chance.between(self._scene.nature.health_lag_s), checked
        )
