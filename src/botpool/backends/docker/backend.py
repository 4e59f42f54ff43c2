"""Implements the backend Protocol for Docker."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from botpool.backends.docker import events, logs
from botpool.backends.docker.config import DockerConfig
from botpool.backends.docker.connection import Connection
from botpool.backends.docker.daemon import Daemon
from botpool.backends.docker.digests import resolve
from botpool.backends.docker.ensure import ensure
from botpool.backends.docker.observe import observe
from botpool.backends.docker.pulls import Pulls
from botpool.backends.docker.start import start
from botpool.backends.docker.stop import remove_slot, stop
from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    Health,
    OwnedContainer,
    StartRequest,
    StopMode,
)
from botpool.domain.errors import BackendRefused, BackendUnavailable, ContainerGone
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState, ExpectedRun, Observation

_READ_TIMEOUT_S = 10.0


class DockerBackend:
    name = "docker"
    status_lag_s = 0.0
    concurrent_starts: int | None = None
    concurrent_pulls = 1
    has_descriptions = False
    can_abandon_runs = False
    stop_removes_output = False

    def __init__(self, config: DockerConfig) -> None:
        self.image_host = config.image_host
        self._config = config
        self._connection = Connection(config)
        self._pulls = Pulls(config)

    async def open(self) -> None:
        """Do nothing: the first call connects."""

    async def close(self) -> None:
        """Close the connection. Pulls in progress continue."""
        await self._connection.close()

    async def resolve_image(self, image: str, *, timeout_s: float) -> str:
        async with self._call("resolve", timeout_s) as daemon:
            return await resolve(daemon, image)

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        async with self._call("ensure", timeout_s) as daemon:
            return await ensure(daemon, spec, stop_through)

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        async with self._call("start", timeout_s) as daemon:
            await start(daemon, self._pulls, request)
        return None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        return None

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        async with self._call("observe", timeout_s) as daemon:
            return await observe(daemon, container_ids)

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        async with self._call("stop", timeout_s) as daemon:
            await stop(daemon, container_id, assignment_id, mode)

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        async with self._call("delete", timeout_s) as daemon:
            try:
                await remove_slot(daemon, container_id, stop_through)
            except ContainerGone:
                return

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        async with self._call("list", timeout_s) as daemon:
            slots = await daemon.list_slots()
        return [
            OwnedContainer(container_id=slot.id, name=slot.newest.spec.name)
            for slot in slots.values()
        ]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        """Only check that the container exists: Docker cannot change labels."""
        async with self._call("describe", timeout_s) as daemon:
            await daemon.read_slot(container_id)

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        try:
            async with self._call("logs", _READ_TIMEOUT_S) as daemon:
                slot = await daemon.read_slot(container_id)
        except ContainerGone:
            return
        container = slot.bot_container(assignment_id)
        if container is None:
            return
        output = logs.stream(self._config.host, container, tail=tail, follow=follow)
        async with aclosing(output):
            async for chunk in output:
                yield chunk

    def changes(self) -> AsyncIterator[ContainerId]:
        async def owned() -> Sequence[ContainerId]:
            return [
                owned.container_id for owned in await self.list_owned(timeout_s=_READ_TIMEOUT_S)
            ]

        return events.hints(self._connection, self._config, owned)

    async def check(self, *, timeout_s: float) -> Health:
        """Check the daemon and the network with two requests."""
        async with self._call("check", timeout_s) as daemon:
            try:
                version = await daemon.version()
                network = self._config.network
                if network is not None and network not in await daemon.networks():
                    problem = f"Docker has no network {network}"
                    raise BackendRefused("backends.docker.network", problem)
            except BackendRefused as refusal:
                return Health(ok=False, detail=str(refusal))
        return Health(ok=True, detail=f"Docker {version}")

    @asynccontextmanager
    async def _call(self, name: str, timeout_s: float) -> AsyncIterator[Daemon]:
        try:
            async with asyncio.timeout(timeout_s):
                yield Daemon(
                    connection=self._connection,
                    config=self._config,
                    call=name,
                    ends_at=time.monotonic() + timeout_s,
                )
        except TimeoutError as error:
            raise BackendUnavailable(f"{name} did not end within {timeout_s:g} s") from error
