"""The Coolify backend: each method of the Protocol in terms of the rooms next door.

Coolify takes 200 requests a minute for everything. Each operation takes all that it normally needs
from the budget before it begins, so that none stops in the middle and begins anew for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx

from botpool.backends.coolify import answers, logs, looking, making, starting, stopping
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.connection import Connection
from botpool.backends.coolify.descriptions import shown_as_written
from botpool.backends.coolify.errand import Errand
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
_DELETE_REQUESTS = 4
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
        """Nothing to do: the first call connects."""

    async def close(self) -> None:
        await self._connection.close()

    async def ensure(self, spec: ContainerSpec, *, timeout_s: float) -> ContainerId:
        """Two requests for one that is there, four to make it."""
        async with self._errand("ensure", RequestPurpose.CREATE, timeout_s, making.REQUESTS) as api:
            return await making.ensure(api, self._ownership, self._config, spec)

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        """Six requests, and three when it was issued before."""
        async with self._errand(
            "start", RequestPurpose.START, timeout_s, starting.REQUESTS, order.correlation_id
        ) as api:
            await self._ownership.require(api, order.container_id)
            return await starting.start(api, order)

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        """One request."""
        async with self._errand("deployment", RequestPurpose.OBSERVE, timeout_s, 1) as api:
            found = await api.deployment(deployment_id)
        if found is None:
            return None
        if found.state is None:
            raise BackendUnavailable(f"deployment {deployment_id} is “{found.status}”")
        return found.state

    async def observe(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, Observation]:
        """Two requests, however many containers there are."""
        async with self._errand("look", RequestPurpose.OBSERVE, timeout_s, looking.REQUESTS) as api:
            return await looking.observe(api, self._ownership, container_ids)

    async def stop(
        self, container_id: ContainerId, assignment_id: AssignmentId | None, *, timeout_s: float
    ) -> None:
        """Three requests, and one more for a deployment under way."""
        async with self._errand("stop", RequestPurpose.STOP, timeout_s, stopping.REQUESTS) as api:
            await self._ownership.require(api, container_id)
            await stopping.stop(api, container_id, assignment_id)

    async def delete(self, container_id: ContainerId, *, timeout_s: float) -> None:
        """Three requests, and one more for a deployment under way.

        Coolify deletes later and lists it until then: under a name of its own, so that nobody
        takes it for the slot's.
        """
        async with self._errand(
            "delete", RequestPurpose.CREATE, timeout_s, _DELETE_REQUESTS
        ) as api:
            try:
                await self._ownership.require(api, container_id)
                await stopping.cancel_deployments(api, container_id)
                await api.update(container_id, {"name": f"deleted-{container_id}"})
                await api.delete(container_id)
            except ContainerGone:
                return

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        """One request."""
        async with self._errand("list", RequestPurpose.OBSERVE, timeout_s, 1) as api:
            owned = await self._ownership.list(api)
        return [OwnedContainer(container_id=each.uuid, name=each.name) for each in owned]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        """One request."""
        async with self._errand("describe", RequestPurpose.DESCRIPTION, timeout_s, 1) as api:
            await self._ownership.require(api, container_id)
            await api.update(container_id, {"description": shown_as_written(text)})

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        """Two requests, and one more each time that a followed one is looked at again."""

        def api() -> Api:
            errand = Errand.begin("logs", RequestPurpose.DESCRIPTION, _LOGS_TIMEOUT_S)
            return Api(connection=self._connection, errand=errand)

        try:
            await self._ownership.require(api(), container_id)
        except ContainerGone:
            return
        async for chunk in logs.read(
            api,
            container_id,
            assignment_id,
            tail=tail,
            follow=follow,
            interval_s=self._config.follow_interval_s,
        ):
            yield chunk

    async def changes(self) -> AsyncIterator[ContainerId]:
        """None: Coolify tells nobody. Looks must do."""
        await asyncio.Event().wait()
        yield ContainerId("")

    async def check(self, *, timeout_s: float) -> Health:
        """Four requests. What reading cannot show, a missing ability to write or deploy, is told
        from the last call that met it until such a call succeeds."""
        config = self._config
        server = quote(config.server_uuid, safe="")
        environment = "/".join(
            quote(part, safe="") for part in (config.project_uuid, config.environment_name)
        )
        try:
            async with self._errand(
                "check", RequestPurpose.OBSERVE, timeout_s, _CHECK_REQUESTS
            ) as api:
                version = await api.version()
                await self._ownership.list(api)
                found = await api.require_place(f"/servers/{server}")
                await api.require_place(f"/projects/{environment}")
        except BackendRefused as refusal:
            return Health(ok=False, detail=str(refusal))
        if refused := self._connection.refused:
            return Health(ok=False, detail="; ".join(map(str, refused)))
        if answers.is_unreachable(found):
            return Health(ok=False, detail="Coolify cannot reach its server: see its page there")
        return Health(ok=True, detail=f"Coolify {version}")

    @asynccontextmanager
    async def _errand(
        self,
        name: str,
        purpose: RequestPurpose,
        timeout_s: float,
        requests: int,
        correlation_id: str | None = None,
    ) -> AsyncIterator[Api]:
        errand = Errand.begin(name, purpose, timeout_s, correlation_id=correlation_id)
        api = Api(connection=self._connection, errand=errand)
        try:
            async with asyncio.timeout(timeout_s):
                await api.pay(requests)
                yield api
        except TimeoutError as error:
            raise errand.overdue() from error
