"""A wrapper that counts and times the calls to a backend."""

import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from botpool.backends.protocol import (
    NO_RUNS,
    Backend,
    ContainerSpec,
    Health,
    OwnedContainer,
    StartRequest,
    StopMode,
)
from botpool.domain import errors
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState, ExpectedRun, Observation
from botpool.engine.observability.metrics import Metrics

T = TypeVar("T")

_log = structlog.get_logger()
_MAX_LOGGED_STATUSES = 100

_OUTCOMES: Mapping[type[BaseException], str] = {
    errors.ContainerGone: "gone",
    errors.BackendRefused: "refused",
    errors.CallSuperseded: "superseded",
    errors.BudgetExhausted: "budget",
    errors.StillRunning: "still_running",
    errors.BackendUnavailable: "unavailable",
}


class InstrumentedBackend:
    """Passes every call to its backend and records the outcome and the duration."""

    name: str
    image_host: str
    status_lag_s: float
    concurrent_starts: int | None
    concurrent_pulls: int
    has_descriptions: bool
    can_abandon_runs: bool
    stop_removes_output: bool

    def __init__(self, backend: Backend, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics
        self._unknown_statuses: set[str] = set()

    def __getattr__(self, attribute: str) -> Any:
        """Read the attributes declared above from the backend, which may change them.

        A backend that resolves images also shows that here (`ImageResolver`).
        """
        return getattr(self._backend, attribute)

    async def open(self) -> None:
        await self._backend.open()

    async def close(self) -> None:
        await self._backend.close()

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        call = self._backend.ensure(spec, stop_through=stop_through, timeout_s=timeout_s)
        return await self._measure("ensure", call)

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        return await self._measure("start", self._backend.start(request, timeout_s=timeout_s))

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        call = self._backend.deployment(container_id, deployment_id, timeout_s=timeout_s)
        return await self._measure("deployment", call)

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        call = self._backend.observe(container_ids, expected=expected, timeout_s=timeout_s)
        observations = await self._measure("observe", call)
        for observation in observations.values():
            if observation.unknown_status is not None:
                self._report_unknown_status(observation.container_id, observation.unknown_status)
        return observations

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        call = self._backend.stop(container_id, assignment_id, mode=mode, timeout_s=timeout_s)
        await self._measure("stop", call)

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        call = self._backend.delete(container_id, stop_through=stop_through, timeout_s=timeout_s)
        await self._measure("delete", call)

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        return await self._measure("list_owned", self._backend.list_owned(timeout_s=timeout_s))

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        call = self._backend.describe(container_id, text, timeout_s=timeout_s)
        await self._measure("describe", call)

    def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        return self._backend.logs(container_id, assignment_id, tail=tail, follow=follow)

    def changes(self) -> AsyncIterator[ContainerId]:
        return self._backend.changes()

    async def check(self, *, timeout_s: float) -> Health:
        try:
            health = await self._measure("check", self._backend.check(timeout_s=timeout_s))
        except BaseException:
            self._metrics.backend_checked(self.name, Health(ok=False))
            raise
        self._metrics.backend_checked(self.name, health)
        return health

    def _report_unknown_status(self, container_id: ContainerId, status: str) -> None:
        """Count an observation with an unknown status, and log each such status once."""
        self._metrics.unknown_status(self.name)
        if status in self._unknown_statuses or len(self._unknown_statuses) >= _MAX_LOGGED_STATUSES:
            return
        self._unknown_statuses.add(status)
        _log.warning(
            "backend.unknown_status", backend=self.name, container=container_id, status=status
        )

    async def _measure(self, name: str, call: Awaitable[T]) -> T:
        started, outcome = time.perf_counter(), "ok"
        try:
            return await call
        except BaseException as error:
            outcome = _outcome_of(error)
            raise
        finally:
            after_s = time.perf_counter() - started
            self._metrics.backend_called(self.name, name, outcome, after_s=after_s)


def _outcome_of(error: BaseException) -> str:
    if not isinstance(error, Exception):
        return "unavailable"  # Cancelled at its timeout, or when the replica stops.
    return next((_OUTCOMES[kind] for kind in type(error).__mro__ if kind in _OUTCOMES), "error")
