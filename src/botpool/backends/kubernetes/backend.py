"""Implements the backend Protocol for Kubernetes."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx

from botpool.backends.kubernetes import logs, names, permissions, pod_list, watch
from botpool.backends.kubernetes.api import Api, Replaced
from botpool.backends.kubernetes.chores import Chores
from botpool.backends.kubernetes.config import KubernetesConfig
from botpool.backends.kubernetes.connection import Call, Connection, Operation
from botpool.backends.kubernetes.node_images import count_cold_nodes
from botpool.backends.kubernetes.observe import Slots, observe, read_pods
from botpool.backends.kubernetes.pod_state import (
    Pod,
    has_stopped,
    is_deleted,
    is_gated,
    is_in_call,
    parse_time,
    uid_of,
)
from botpool.backends.kubernetes.pod_template import placement_of
from botpool.backends.kubernetes.request_allotment import RequestAllotment
from botpool.backends.kubernetes.setup_problems import SetupProblems
from botpool.backends.kubernetes.slot_lists import SlotLists
from botpool.backends.kubernetes.start import open_gate, prepare
from botpool.backends.kubernetes.stop import discard, remove_all, stop, stop_all
from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    Health,
    OwnedContainer,
    ReadKnownRuns,
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

_CHORE_TIMEOUT_S = 20.0
_REVIEW_INTERVAL_S = 300.0
_PORTION = 10
_CREATES_AT_ONCE = 8
"""Creates in progress. In a burst, the gates of the first Pods open while later ones are created,
so that the nodes do not wait for the last create."""


class KubernetesBackend:
    name = "kubernetes"
    image_host = "cluster"
    status_lag_s = 0.0
    concurrent_starts: int | None = None
    has_descriptions = False
    can_abandon_runs = True
    stop_removes_output = True

    def __init__(
        self,
        config: KubernetesConfig,
        budget: RequestBudget,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.concurrent_pulls = config.concurrent_pulls
        self._config = config
        allotment = RequestAllotment(shared=budget, portion=_PORTION)
        self._connection = Connection(config, allotment, transport)
        self._chores = Chores()
        self._creates = asyncio.Semaphore(_CREATES_AT_ONCE)
        self._slot_lists = SlotLists(self._list_selected, config.installation_id)
        self._problems = SetupProblems()
        self._reviewed: tuple[float, permissions.Permissions] | None = None

    async def open(self) -> None:
        """Do nothing: the first call connects."""

    async def close(self) -> None:
        await self._chores.close()
        await self._slot_lists.close()
        await self._connection.close()

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        """Check that no run of the slot is left: a slot without a run has no Pod."""
        if not names.is_slot_name(spec.name):
            problem = f"the slot name {spec.name} is no name of a Pod"
            raise BackendRefused(f"pools.{spec.pool_name}", problem)
        container_id = names.container_id_of(self._config.installation_id, spec.name)
        async with self._operation("ensure", RequestPurpose.CREATE, timeout_s) as api:
            pods = await self._slot_lists.pods_of(spec.name)
            for pod in await stop_all(api, container_id, pods, spec, stop_through):
                self._discard_later(pod["metadata"]["name"], uid_of(pod))
        return container_id

    async def prepare(
        self, spec: ContainerSpec, request: StartRequest, *, timeout_s: float
    ) -> DeploymentId:
        """Create the run's Pod, which cannot be scheduled yet. Sends one request."""
        self._slot(request.container_id)
        async with self._operation("prepare", request.purpose, timeout_s) as api, self._creates:
            return await prepare(api, self._config, spec, request)

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        """Let the scheduler place the prepared Pod. Sends one request."""
        slot = self._slot(request.container_id)
        async with self._operation("start", request.purpose, timeout_s) as api:
            await open_gate(api, request, slot)
        return request.deployment_id

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        """Return None: `observe` reports what is known of a Pod."""
        return None

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        slots: Slots = {
            each: names.slot_of(self._config.installation_id, each) for each in container_ids
        }
        async with self._reading("observe", timeout_s) as api:
            pods = await read_pods(api, slots, expected)
            observations = await observe(api, self._config, slots, expected, pods)
        self._protect_calls(pods, expected)
        self._problems.learn(pods, observations)
        return observations

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        slot = self._slot(container_id)
        async with self._operation("stop", RequestPurpose.STOP, timeout_s) as api:
            await stop(api, slot, assignment_id, mode)

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        slot = names.slot_of(self._config.installation_id, container_id)
        if slot is None:
            return
        async with self._operation("delete", RequestPurpose.CREATE, timeout_s) as api:
            await remove_all(api, container_id, slot, stop_through)

    def discard(
        self, container_id: ContainerId, assignment_id: AssignmentId, deployment_id: DeploymentId
    ) -> None:
        """Remove the Pod of a run whose confirmed stop the engine has recorded, in background."""
        slot = names.slot_of(self._config.installation_id, container_id)
        if slot is not None:
            name = names.pod_name(self._config.installation_id, slot, assignment_id)
            self._discard_later(name, deployment_id)

    def protect(
        self, container_id: ContainerId, assignment_id: AssignmentId, deployment_id: DeploymentId
    ) -> None:
        """Keep drains from the Pod of a bot that joins its call, in background."""
        slot = names.slot_of(self._config.installation_id, container_id)
        if slot is not None:
            name = names.pod_name(self._config.installation_id, slot, assignment_id)
            mark = partial(self._mark, name, deployment_id, in_call=True)
            self._chores.add(("protect", deployment_id), mark)

    async def discard_unknown(
        self, read_known: ReadKnownRuns, *, min_age_s: float, timeout_s: float
    ) -> int:
        """Remove Pods that ended or were never started, and that no slot has.

        A young Pod that is not started may belong to a start in progress.
        """
        removed = 0
        async with self._reading("cleanup", timeout_s, RequestPurpose.CREATE) as api:
            pods = await api.list_pods()
            known = await read_known()
            ends_at = time.monotonic() + timeout_s
            for pod in pods:
                if time.monotonic() >= ends_at:
                    break  # The next cleanup continues.
                created_at = parse_time(pod["metadata"]["creationTimestamp"])
                is_old = datetime.now(UTC) - created_at >= timedelta(seconds=min_age_s)
                is_leftover = has_stopped(pod) or (is_gated(pod) and is_old)
                if uid_of(pod) not in known and is_leftover:
                    removed += await discard(api, pod)
        return removed

    async def find_missing_images(
        self, images: Collection[str], *, timeout_s: float
    ) -> Collection[str]:
        """Compare the nodes that Pods may use with the images. Sends one LIST, in pages."""
        async with self._operation("nodes", RequestPurpose.OBSERVE, timeout_s) as api:
            nodes = await api.list_nodes()
        placement = placement_of(self._config)
        return {
            image
            for image in images
            if count_cold_nodes(nodes, placement, image) > self.concurrent_pulls
        }

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        """Return the slots with Pods."""
        async with self._reading("list", timeout_s) as api:
            pods = await api.list_pods()
        slots = {(pod["metadata"].get("labels") or {}).get(names.SLOT_LABEL) for pod in pods}
        installation_id = self._config.installation_id
        return [
            OwnedContainer(container_id=names.container_id_of(installation_id, slot), name=slot)
            for slot in sorted(slot for slot in slots if slot)
        ]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        """Only check the id: a slot without a run has nothing to describe."""
        self._slot(container_id)

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        slot = names.slot_of(self._config.installation_id, container_id)
        if slot is None:
            return
        name = names.pod_name(self._config.installation_id, slot, assignment_id)
        output = logs.stream(self._connection, name, tail=tail, follow=follow)
        async with aclosing(output):
            async for chunk in output:
                yield chunk

    def changes(self) -> AsyncIterator[ContainerId]:
        return watch.hints(self._connection, self._config.installation_id)

    async def check(self, *, timeout_s: float) -> Health:
        """Check the API server, the permissions and what the last calls found wrong."""
        try:
            async with self._operation("check", RequestPurpose.OBSERVE, timeout_s) as api:
                version = await self._version(api)
                granted = await self._permissions(api)
        except BackendRefused as refusal:
            return Health(ok=False, detail=str(refusal))
        except BudgetExhausted:
            raise
        except BackendUnavailable as error:
            raise HealthCheckFailed(error.problem, self._connection.access.server) from error
        problems = [granted.refusal(self._connection.access.namespace)]
        problems += [*self._connection.refused, *self._problems.refusals()]
        found = [str(problem) for problem in problems if problem is not None]
        if found:
            return Health(ok=False, detail="; ".join(dict.fromkeys(found)))
        weakness = " ".join(_WEAKNESSES[verb] for verb in granted.missing_on_nodes)
        return Health(ok=True, detail=f"Kubernetes {version}", weakness=weakness)

    async def _version(self, api: Api) -> str:
        call = Call(method="GET", path="/version")
        response = await self._connection.send(api.operation, call)
        if not response.is_success:
            raise BackendUnavailable(f"check: the API server answered {response.status}")
        return str(response.content.get("gitVersion", "of an unknown version"))

    async def _permissions(self, api: Api) -> permissions.Permissions:
        now = time.monotonic()
        reviewed = self._reviewed
        if reviewed is None or reviewed[1].missing or now - reviewed[0] >= _REVIEW_INTERVAL_S:
            reviewed = (now, await permissions.review(self._connection, api.operation))
            self._reviewed = reviewed
        return reviewed[1]

    def _slot(self, container_id: ContainerId) -> str:
        slot = names.slot_of(self._config.installation_id, container_id)
        if slot is None:
            raise ContainerGone(container_id)
        return slot

    async def _list_selected(self, selector: str) -> Sequence[Pod]:
        async with self._operation("ensure", RequestPurpose.CREATE, _CHORE_TIMEOUT_S) as api:
            _, pods = await pod_list.list_pods(self._connection, api.operation, selector)
            return pods

    def _protect_calls(
        self, pods: Sequence[Pod], expected: Mapping[ContainerId, ExpectedRun]
    ) -> None:
        """Mark the Pods whose bots join their call or are in it, and only these."""
        protected = {run.deployment_id: run.is_protected for run in expected.values()}
        for pod in pods:
            uid = uid_of(pod)
            wanted = protected.get(uid)
            if wanted is None or wanted == is_in_call(pod) or is_deleted(pod) or has_stopped(pod):
                continue
            name = pod["metadata"]["name"]
            self._chores.add(("protect", uid), partial(self._mark, name, uid, in_call=wanted))

    async def _mark(self, name: str, uid: DeploymentId, *, in_call: bool) -> None:
        annotations = names.PROTECTION if in_call else dict.fromkeys(names.PROTECTION)
        labels = {names.IN_CALL_LABEL: "true" if in_call else None}
        patch = {"metadata": {"labels": labels, "annotations": annotations}}
        async with self._operation("protect", RequestPurpose.DESCRIPTION, _CHORE_TIMEOUT_S) as api:
            try:
                await api.patch_pod(name, uid, patch)
            except Replaced:
                return

    def _discard_later(self, name: str, uid: DeploymentId) -> None:
        self._chores.add(("discard", uid), partial(self._discard, name, uid))

    async def _discard(self, name: str, uid: DeploymentId) -> None:
        async with self._operation("discard", RequestPurpose.STOP, _CHORE_TIMEOUT_S) as api:
            pod = await api.read_pod(name)
            if pod is not None and api.is_ours(pod) and uid_of(pod) == uid:
                await discard(api, pod)

    @asynccontextmanager
    async def _operation(
        self,
        name: str,
        purpose: RequestPurpose,
        timeout_s: float,
        *,
        is_per_request: bool = False,
    ) -> AsyncIterator[Api]:
        operation = Operation(
            name=name, purpose=purpose, timeout_s=timeout_s, is_per_request=is_per_request
        )
        async with operation.limited():
            yield Api(
                connection=self._connection,
                operation=operation,
                installation_id=self._config.installation_id,
            )

    def _reading(
        self, name: str, timeout_s: float, purpose: RequestPurpose = RequestPurpose.OBSERVE
    ) -> AbstractAsyncContextManager[Api]:
        """Begin an operation that reads many pages: each request has the time limit."""
        return self._operation(name, purpose, timeout_s, is_per_request=True)


_WEAKNESSES = {
    "get": "Botpool may not read nodes (get nodes): it cannot see that a node is lost, so the stop "
    "of a bot there stays unconfirmed until the node is back.",
    "list": "Botpool may not list nodes (list nodes): it cannot limit how many new nodes pull an "
    "image at once.",
}
