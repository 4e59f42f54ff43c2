"""Stops and deletes: Coolify accepts them at once and does the work later.

Both remove the containers that exist when their job begins. Neither ends a deployment: a container
that a deployment starts afterwards keeps running, even when its application has been deleted.
"""

from collections.abc import Callable

from botpool.emulators.coolify.containers import Containers
from botpool.emulators.coolify.records import Application
from botpool.emulators.coolify.simulation import Simulation
from botpool.emulators.coolify.worker_pool import WorkerPool


class ApplicationRemoval:
    def __init__(self, simulation: Simulation, containers: Containers, workers: WorkerPool) -> None:
        self._simulation = simulation
        self._containers = containers
        self._workers = workers

    def stop(self, application: Application) -> None:
        simulation, uuid = self._simulation, application.uuid
        if simulation.faults.trigger("stopDoesNothing", application=uuid):
            return
        lies = simulation.faults.trigger("stopLies", application=uuid)
        slow = simulation.faults.trigger("stopSlow", application=uuid)
        config_s = simulation.config.stop_s
        takes_s = simulation.randomness.between(config_s)
        takes_s = slow.number() if slow else min(takes_s, application.stop_grace_s)

        def begin() -> None:
            if lies:
                self._containers.report_stopped(application)
                self._workers.release()
            else:
                self._remove_containers(application, takes_s, self._workers.release)

        self._workers.submit(begin)

    def delete(self, application: Application, forget: Callable[[], object]) -> None:
        """Remove the containers, then call `forget`, which removes the application's record."""
        simulation = self._simulation
        if simulation.faults.trigger("deleteNeverFinishes", application=application.uuid):
            return
        takes_s = simulation.randomness.between(simulation.config.delete_s)

        def begin() -> None:
            def done() -> None:
                application.deleted = True
                forget()
                self._workers.release()

            self._remove_containers(application, takes_s, done)

        self._workers.submit(begin)

    def _remove_containers(
        self, application: Application, takes_s: float, done: Callable[[], None]
    ) -> None:
        if not self._simulation.server_reachable:
            done()
            return
        containers = tuple(application.containers)
        self._containers.request_stop(containers)

        def removed() -> None:
            self._containers.remove(containers)
            done()

        self._simulation.scheduler.after(takes_s if containers else 1.0, removed)
