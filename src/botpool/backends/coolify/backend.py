"""Implements the backend Protocol for Coolify.

Coolify accepts 200 requests a minute. Each operation reserves the requests that it normally needs
before it begins, so that it does not run out of budget half-way and start over for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx

from botpool.backends.coolify import (
    adoption,
    ensure,
    error_messages,
    logs,
    observe,
    responses,
    start,
    stop,
)
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.connection import Connection
from botpool.backends.coolify.formats import clean_description
from botpool.backends.coolify.operation import Operation
from botpool.backends.coolify.ownership import Ownership
from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    ForeignContainer,
    Health,
    OwnedContainer,
    RequestBudget,
    RequestPurpose,
    StartRequest,
    StopMode,
)
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    ContainerGone,
    HealthCheckFailed,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState, ExpectedRun, Observation

_LOGS_TIMEOUT_S = 15.0
_DELETE_REQUESTS = 5
_CHECK_REQUESTS = 4
_DEFAULT_BUILDS = 2
"""Coolify's own default, until a check has read the server's."""
_EXTRA_DEPLOYMENTS = 2
"""Deployments beyond the concurrent builds, so that Coolify starts the next one itself."""
_PROMPT_BUILDS = 20
"""With these builds, 50 warm bots start in about half a minute (see the page coolify-timeline)."""


class CoolifyBackend:
    name = "coolify"
    concurrent_pulls = 1
    has_descriptions = True
    can_abandon_runs = False
    stop_removes_output = True

    def __init__(
        self,
        config: CoolifyConfig,
        budget: RequestBudget,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.image_host = config.server_uuid
        self.status_lag_s = config.status_lag_s
        self.concurrent_starts: int | None = (
            config.concurrent_deployments or _DEFAULT_BUILDS + _EXTRA_DEPLOYMENTS
        )
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
            "start", request.purpose, timeout_s, start.REQUESTS, request.correlation_id
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
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        """Send two requests for any number of containers."""
        async with self._operation(
            "observe", RequestPurpose.OBSERVE, timeout_s, observe.REQUESTS
        ) as api:
            return await observe.observe(api, self._ownership, container_ids)

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
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

    async def find_containers(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, ForeignContainer]:
        """Send one request for any number of applications."""
        async with self._operation(
            "find", RequestPurpose.CREATE, timeout_s, adoption.FIND_REQUESTS
        ) as api:
            return await adoption.find(api, container_ids)

    async def adopt(self, container_id: ContainerId, name: str, *, timeout_s: float) -> None:
        """Send two requests."""
        async with self._operation(
            "adopt", RequestPurpose.CREATE, timeout_s, adoption.ADOPT_REQUESTS
        ) as api:
            await adoption.adopt(api, self._ownership, container_id, name)

    async def delete_foreign(self, container_id: ContainerId, *, timeout_s: float) -> None:
        """Send two requests, and one more for an open deployment."""
        async with self._operation(
            "delete", RequestPurpose.CREATE, timeout_s, adoption.DELETE_REQUESTS
        ) as api:
            await adoption.delete(api, container_id)

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
        """Send four requests, and derive the limit of deployments from the server's settings.

        Reading cannot show that the token may not write or deploy, so the check reports the last
        refused call until a similar call succeeds.
        """
        try:
            version, server = await self._read_server(timeout_s)
        except BudgetExhausted:
            raise
        except BackendRefused as refusal:
            return self._failing(str(refusal))
        except BackendUnavailable as error:
            problem = f"{error.problem}. If this lasts, check backends.coolify.url"
            raise HealthCheckFailed(problem, self._config.api_url) from error
        if refused := self._connection.refused:
            return self._failing("; ".join(map(str, refused)))
        if not responses.is_at_least(version, error_messages.MINIMUM_VERSION):
            return self._failing(str(error_messages.too_old(version)))
        if server.settings.is_reachable is False:
            return self._failing(
                "Coolify cannot reach its server. See the server's page in Coolify."
            )
        builds = server.settings.concurrent_builds or _DEFAULT_BUILDS
        if self._config.concurrent_deployments is None:
            self.concurrent_starts = builds + _EXTRA_DEPLOYMENTS
        return Health(ok=True, detail=_capacity(version, builds, self.concurrent_starts))

    async def _read_server(self, timeout_s: float) -> tuple[str, responses.Server]:
        config = self._config
        async with self._operation(
            "check", RequestPurpose.OBSERVE, timeout_s, _CHECK_REQUESTS
        ) as api:
            version = await api.version()
            await self._ownership.list(api)
            server = await api.require_exists("servers", config.server_uuid)
            await api.require_exists("projects", config.project_uuid, config.environment_name)
            return version, responses.parse(responses.Server, server or {})

    def _failing(self, detail: str) -> Health:
        address = self._config.api_url
        if (location := self._connection.redirected_to) is not None:
            address += f" redirects to {location}"
        return Health(ok=False, detail=detail, address=address)

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


def _capacity(version: str, builds: int, deployments: int | None) -> str:
    text = f"Coolify {version}, concurrent_builds {builds}: {deployments} deployments at a time"
    if builds < _PROMPT_BUILDS:
        text += f". To start 50 warm bots within about half a minute, set it to {_PROMPT_BUILDS}"
        text += " and allow 1000 requests a minute"
    return text
