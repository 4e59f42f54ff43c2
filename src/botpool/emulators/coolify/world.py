"""A whole Coolify with one server, as a machine without a clock of its own.

`advance` lets everything happen that is due until a moment; every other method is one thing that
somebody does at the present moment. Nothing waits, sleeps or looks at the wall: the same seed, and
the same moments and calls, give the same world, uuids included.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from botpool.emulators.coolify.agenda import Agenda
from botpool.emulators.coolify.chance import Chance
from botpool.emulators.coolify.containers import ContainerRuntime, NoProcesses
from botpool.emulators.coolify.deployments import Deployments, NotQueued
from botpool.emulators.coolify.endings import Endings
from botpool.emulators.coolify.faults import Faults
from botpool.emulators.coolify.fleet import Fleet
from botpool.emulators.coolify.limits import Limits
from botpool.emulators.coolify.nature import OLD_VERSION, VERSION, Nature
from botpool.emulators.coolify.records import (
    EXITED,
    Application,
    Container,
    ContainerState,
    Deployment,
)
from botpool.emulators.coolify.scene import Scene
from botpool.emulators.coolify.variables import Variables
from botpool.emulators.coolify.workers import Workers

__all__ = ["NotQueued", "World"]


class World:
    def __init__(
        self,
        nature: Nature | None = None,
        *,
        seed: int = 0,
        runtime: ContainerRuntime | None = None,
    ) -> None:
        chance = Chance(seed)
        self.scene = Scene(
            agenda=Agenda(),
            chance=chance,
            faults=Faults(chance),
            nature=nature or Nature(),
            runtime=runtime or NoProcesses(),
        )
        self.fleet = Fleet(self.scene)
        workers = Workers(self.scene)
        self.deployments = Deployments(self.scene, self.fleet, workers)
        self.variables = Variables(self.scene)
        self._endings = Endings(self.scene, self.fleet, workers)
        self._ids = itertools.count(1)
        self._refused_until = 0.0
        self.limits = Limits()
        self.applications: dict[str, Application] = {}

    # Time

    @property
    def now(self) -> float:
        return self.scene.now

    @property
    def nature(self) -> Nature:
        return self.scene.nature

    @property
    def faults(self) -> Faults:
        return self.scene.faults

    def advance(self, to: float) -> None:
        self.scene.agenda.advance(to)

    def next_event_at(self) -> float | None:
        """When something will happen by itself; None: nothing will."""
        return self.scene.agenda.next_at()

    def poll(self) -> None:
        """Notice containers that have ended by themselves."""
        self.fleet.poll()

    # The installation

    @property
    def version(self) -> str:
        return OLD_VERSION if self.before_4_2 else VERSION

    @property
    def before_4_2(self) -> bool:
        return self.faults.lasting("versionBefore42") is not None

    @property
    def server_reachable(self) -> bool:
        return self.scene.server_reachable

    @property
    def refuses_connections_for_s(self) -> float:
        return max(self._refused_until - self.now, 0.0)

    @property
    def running_containers(self) -> tuple[Container, ...]:
        """The truth, also of those whose application is gone."""
        return tuple(c for c in self.fleet.containers if c.state is ContainerState.RUNNING)

    def set_faults(self, wanted: object) -> None:
        """Set and clear faults, in the shape of `faults`. Raises WrongFault."""
        self.faults.change(wanted, self._fault_changed)

    def _fault_changed(self, name: str) -> None:
        fault = self.faults.lasting(name)
        if name in ("refuseConnection", "restartCoolify"):
            self._refused_until = self.now + fault.seconds() if fault else self.now
        if name == "restartCoolify" and fault:
            self.deployments.fail_all()
        if name == "serverUnreachable":
            for application in self.applications.values():
                if fault:
                    application.status = EXITED
                else:
                    # The server is known to be back at once, its containers at the next look.
                    self.fleet.look_later(application)

    # Applications

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
        uuid = self.scene.chance.uuid()
        application = Application(
            id=next(self._ids),
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

    def run_at_once(self, application: Application) -> None:
        """It runs since before anybody looked: for applications of others."""
        self.fleet.start(application, {"COOLIFY_RESOURCE_UUID": application.uuid})
        self.fleet.announce(application)
        self.fleet.look(application)
        self.deployments.images.add(application.image_and_tag)

    def start(
        self, application: Application, *, restart_only: bool = False, force: bool = False
    ) -> Deployment | NotQueued:
        return self.deployments.queue(application, restart_only=restart_only, force=force)

    def stop(self, application: Application) -> None:
        self._endings.stop(application)

    def delete(self, application: Application) -> None:
        uuid = application.uuid
        self._endings.delete(application, lambda: self._forget(uuid))

    def cancel(self, deployment: Deployment) -> bool:
        return self.deployments.cancel(deployment)

    def _forget(self, uuid: str) -> None:
        self.applications.pop(uuid, None)
