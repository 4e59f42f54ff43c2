"""Implements the backend Protocol for Coolify.

Coolify accepts 200 requests a minute. Each operation reserves the requests that it normally needs
before it begins, so that it does not run out of budget half-way and start over for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx

from botpool.backends.coolify import ensure, logs, observe, responses, start, stop
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.connection import Connection
from botpool.backends.coolify.formats import clean_description
from botpool.backends.coolify.operation import Operation
from botpool.backends.coolify.ownership import Ownership
from botpool.backends.protocol import (
    ContainerSpec,
    Health,
    OwnedContainer,
    RequestBudget,
    RequestPurpose,
    StartRequest,
)
from botpool.domain.errors import BackendRefused, BackendUnavailable, ContainerGone
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState, Observation

_LOGS_TIMEOUT_S = 15.0
_DELETE_REQUESTS = 5
_CHECK_REQUESTS = 4


class CoolifyBackend:
    name = "coolify"
    has_descriptions = True

    def __init__(
        self,
        config: CoolifyConfig,
        budget: RequestBudget,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.image_host = config.server_uuid
        self.status_lag_s = config.status_lag_s
        self.concurrent_starts: int | None = config.concurrent_deployments
        self._config = config
        self._connection = Connection(config, budget, transport)
        self._ownership = Ownership(config.tag)

    async def open(self) -> None:
        """Do nothing: the first call connects."""

    async def close(self) -> None:
        await self._connection.close()

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        """Send two requests for an existing application, four to create one."""
        async with self._operation(
            "ensure", RequestPurpose.CREATE, timeout_s, ensure.REQUESTS
        ) as api:
            return await ensure.ensure(api, self._ownership, self._config, spec, stop_through)

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        """Send six requests, or three if the start was issued before."""
        async with self._operation(
            "start", RequestPurpose.START, timeout_s, start.REQUESTS, request.correlation_id
        ) as api:
            await self._ownership.require(api, request.container_id)
            return await start.start(api, request)

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        """Send one request."""
        async with self._operation("deployment", RequestPurpose.OBSERVE, timeout_s, 1) as api:
            found = await api.deployment(deployment_id)
        if found is None:
            return None
        if found.state is None:
            raise BackendUnavailable(f"deployment {deployment_id} is “{found.status}”")
        return found.state

    async def observe(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, Observation]:
        """Send two requests for any number of containers."""
        async with self._operation(
            "observe", RequestPurpose.OBSERVE, timeout_s, observe.REQUESTS
        ) as api:
            return await observe.observe(api, self._ownership, container_ids)

    async def stop(
        self, container_id: ContainerId, assignment_id: AssignmentId, *, timeout_s: float
    ) -> None:
        """Send four requests, and one more for an open deployment."""
        async with self._operation("stop", RequestPurpose.STOP, timeout_s, stop.REQUESTS) as api:
            await self._ownership.require(api, container_id)
            await stop.stop(api, container_id, assignment_id)

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        """Send four requests, and one more for an open deployment.

        Coolify lists the application until its deletion is done. It gets another name first, so
        that `ensure` does not find it.
        """
        async with self._operation(
            "delete", RequestPurpose.CREATE, timeout_s, _DELETE_REQUESTS
        ) as api:
            try:
                await self._ownership.require(api, container_id)
                await stop.require_assignment_through(api, container_id, stop_through)
                await stop.cancel_deployments(api, container_id)
                await api.update(container_id, {"name": f"deleted-{container_id}"})
                await api.delete(container_id)
            except ContainerGone:
                return

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        """Send one request."""
        async with self._operation("list", RequestPurpose.OBSERVE, timeout_s, 1) as api:
            owned = await self._ownership.list(api)
        return [
            OwnedContainer(container_id=application.uuid, name=application.name)
            for application in owned
        ]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        """Send one request."""
        async with self._operation("describe", RequestPurpose.DESCRIPTION, timeout_s, 1) as api:
            await self._ownership.require(api, container_id)
            await api.update(container_id, {"description": clean_description(text)})

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        """Send two requests, and one more for each poll of a followed log."""

        def api() -> Api:
            operation = Operation.begin("logs", RequestPurpose.DESCRIPTION, _LOGS_TIMEOUT_S)
            return Api(connection=self._connection, operation=operation)

        try:
            await self._ownership.require(api(), container_id)
        except ContainerGone:
            return
        async for chunk in logs.stream(
            api,
            container_id,
            assignment_id,
            tail=tail,
            follow=follow,
            interval_s=self._config.follow_interval_s,
        ):
            yield chunk

    async def changes(self) -> AsyncIterator[ContainerId]:
        """Yield nothing: Coolify sends no events."""
        await asyncio.Event().wait()
        yield ContainerId("")

    async def check(self, *, timeout_s: float) -> Health:
        """Send four requests.

        Reading cannot show that the token may not write or deploy, so the check reports the last
        refused call until a similar call succeeds.
        """
        config = self._config
        try:
            async with self._operation(
                "check", RequestPurpose.OBSERVE, timeout_s, _CHECK_REQUESTS
            ) as api:
                version = await api.version()
                await self._ownership.list(api)
                server = await api.require_exists("servers", config.server_uuid)
                await api.require_exists("projects", config.project_uuid, config.environment_name)
        except BackendRefused as refusal:
            return Health(ok=False, detail=str(refusal))
        if refused := self._connection.refused:
            return Health(ok=False, detail="; ".join(map(str, refused)))
        if responses.is_unreachable(server):
            return Health(
                ok=False,
                detail="Coolify cannot reach its server. See the server's page in Coolify.",
            )
        return Health(ok=True, detail=f"Coolify {version}")

    @asynccontextmanager
    async def _operation(
        self,
        name: str,
        purpose: RequestPurpose,
        timeout_s: float,
        requests: int,
        correlation_id: str | None = None,
    ) -> AsyncIterator[Api]:
        operation = Operation.begin(name, purpose, timeout_s, correlation_id=correlation_id)
        api = Api(connection=self._connection, operation=operation)
        try:
            async with asyncio.timeout(timeout_s):
                await api.reserve(requests)
                yield api
        except TimeoutError as error:
            raise operation.timed_out() from error
