"""A start: fenced, tied to its own deployment, and never issued twice.

Deployments are read before the fence: whatever was issued for an assignment that the fence does
not show yet is then newer than the mark, however two replicas interleave. The fence is read once
more after the start. A stop raises the fence before it looks for deployments, so that one of the
two always sees the other.
"""

import contextlib
from collections.abc import Sequence

from botpool.backends.coolify import fence
from botpool.backends.coolify.answers import Deployment, Started
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.fence import Fence
from botpool.backends.coolify.stopping import END_REQUESTS, end
from botpool.backends.protocol import RequestPurpose, StartRequest
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import DeploymentId
from botpool.domain.observation import DOWN, ContainerState

REQUESTS = 6
"""Deployments, fence, environment (or deployments again), start, fence, the deployment itself."""
_QUEUE_FULL_S = 30.0


async def start(api: Api, order: StartRequest) -> DeploymentId:
    container_id, assignment_id = order.container_id, order.assignment_id
    before = await api.deployments_of(container_id)
    found = fence.read(await api.variables(container_id))
    found.require_open(container_id, assignment_id)
    if found.assignment == assignment_id:
        mark = found.mark_of(container_id, assignment_id)
        issued = fence.first_after(mark, before)
        if issued is None:
            issued = fence.first_after(mark, await api.deployments_of(container_id))
        if issued is not None:
            return issued.uuid
    else:
        await _require_vacant(api, order, found, before)
        mark = fence.mark_before(before)
        await _prepare(api, order, found, mark)
    answer = await api.start(container_id)
    try:
        await _require_not_stopped(api, order)
        return await _deployment_of(api, order, answer, mark)
    except BackendRefused as error:
        # A refusal says that nothing was started, which is no longer true.
        raise BackendUnavailable(str(error)) from error


async def _require_vacant(
    api: Api, order: StartRequest, found: Fence, deployments: Sequence[Deployment]
) -> None:
    """Nothing of a former assignment may run here, or be on its way."""
    container_id = order.container_id
    if any(deployment.is_under_way for deployment in deployments):
        raise StartSuperseded(container_id, "another deployment of it is under way")
    if found.assignment is None or found.assignment <= found.stopped_through:
        return
    await api.pay_more(1)
    state = (await api.application(container_id)).state
    if state is ContainerState.UNKNOWN:
        raise BackendUnavailable(f"it is not known whether {container_id} still runs")
    if state not in DOWN:
        raise StartSuperseded(container_id, f"assignment {found.assignment} runs in it")


async def _prepare(api: Api, order: StartRequest, found: Fence, mark: str) -> None:
    """Write the environment, and see by the last variable that all of it was written."""
    values = fence.environment(order, former=found, mark=mark)
    written = fence.read(await api.write_variables(order.container_id, values))
    if written.assignment is None:
        await api.pay_more(1)
        written = fence.read(await api.variables(order.container_id))
    if written.assignment != order.assignment_id:
        raise BackendUnavailable(f"the environment of {order.container_id} was not written")


async def _require_not_stopped(api: Api, order: StartRequest) -> None:
    found = fence.read(await api.variables(order.container_id))
    try:
        found.require_open(order.container_id, order.assignment_id)
    except StartSuperseded:
        if found.assignment == order.assignment_id:
            await api.pay_more(END_REQUESTS)
            with contextlib.suppress(StillRunning):
                await end(api.serving(RequestPurpose.STOP), order.container_id)
        raise


async def _deployment_of(api: Api, order: StartRequest, answer: Started, mark: str) -> DeploymentId:
    """The deployment that the start made, whatever Coolify answered.

    A full queue is answered with the uuid of a deployment that does not exist, and one that is
    queued already (by a start whose answer was lost) without any.
    """
    if answer.deployment_id and await api.deployment(answer.deployment_id):
        return answer.deployment_id
    await api.pay_more(1)
    issued = fence.first_after(mark, await api.deployments_of(order.container_id))
    if issued is not None:
        return issued.uuid
    problem = f"Coolify did not queue the start of {order.container_id} ({answer.message})"
    raise BudgetExhausted(problem, _QUEUE_FULL_S)
