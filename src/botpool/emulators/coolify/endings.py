"""Stops and deletes: accepted at once, done later, by the workers that also deploy.

Both see the containers that exist when their turn has come. Neither ends a deployment: what one of
those starts afterwards runs on, even when its application is gone.
"""

from collections.abc import Callable

from botpool.emulators.coolify.fleet import Fleet
from botpool.emulators.coolify.records import Application
from botpool.emulators.coolify.scene import Scene
from botpool.emulators.coolify.workers import Release, Workers


class Endings:
    def __init__(self, scene: Scene, fleet: Fleet, workers: Workers) -> None:
        self._scene = scene
        self._fleet = fleet
        self._workers = workers

    def stop(self, application: Application) -> None:
        faults, uuid = self._scene.faults, application.uuid
        if faults.hit("stopDoesNothing", application=uuid):
            return
        lies = faults.hit("stopLies", application=uuid)
        slow = faults.hit("stopSlow", application=uuid)
        takes_s = slow.seconds() if slow else self._scene.chance.between(self._scene.nature.stop_s)

        def begin(release: Release) -> None:
            if lies:
                application.lied_about = True
                self._fleet.look_later(application)
                release()
            else:
                self._end_containers(application, takes_s, release)

        self._workers.submit(begin)

    def delete(self, application: Application, forget: Callable[[], None]) -> None:
        """`forget` is called when it is done: from then on the application is not found."""
        if self._scene.faults.hit("deleteNeverFinishes", application=application.uuid):
            return
        takes_s = self._scene.chance.between(self._scene.nature.delete_s)

        def begin(release: Release) -> None:
            def done() -> None:
                application.gone = True
                forget()
                release()

            self._end_containers(application, takes_s, done)

        self._workers.submit(begin)

    def _end_containers(
        self, application: Application, takes_s: float, done: Callable[[], None]
    ) -> None:
        if not self._scene.server_reachable:
            done()
            return
        containers = tuple(application.containers)
        self._fleet.ask_to_stop(containers)

        def ended() -> None:
            self._fleet.remove(containers)
            done()

        self._scene.agenda.after(takes_s if containers else 1.0, ended)
