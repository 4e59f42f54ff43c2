"""Starts an application: fenced, tied to its own deployment, and never issued twice.

The deployments are read before the fence: a deployment of an assignment that the fence does not
show yet is then newer than the mark, however two replicas interleave. The fence is read again after
the start. A stop raises the fence before it reads deployments, so that at least one of the two
finds the other.
"""

import contextlib
from collections.abc import Sequence

from botpool.backends.coolify import fence
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.fence import Fence, parse_fence
from botpool.backends.coolify.responses import Deployment, StartResponse, Variable
from botpool.backends.coolify.stop import CANCEL_AND_STOP_REQUESTS, cancel_and_stop
from botpool.backends.protocol import RequestPurpose, StartRequest
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import ContainerId, DeploymentId
from botpool.domain.observation import ENDED_STATES, ContainerState

REQUESTS = 6
"""Deployments, fence, environment (or deployments again), start, fence, the deployment itself.

The first start in an application also reads its new variables back."""
_QUEUE_FULL_RETRY_S = 30.0


async def start(api: Api, request: StartRequest) -> DeploymentId:
    container_id, assignment_id = request.container_id, request.assignment_id
    deployments = await api.deployments_of(container_id)
    variables = await api.variables(container_id)
    found = parse_fence(variables)
    found.require_startable(container_id, assignment_id)
    if found.assignment == assignment_id:
        mark = found.mark_of(container_id, assignment_id)
        issued = fence.first_after(mark, deployments)
        if issued is None:
            issued = fence.first_after(mark, await api.deployments_of(container_id))
        if issued is not None:
            return issued.uuid
    else:
        await _require_stopped(api, request, found, deployments)
        mark = fence.mark_before(deployments)
    if found.assignment != assignment_id or fence.duplicates(variables):
        await _write_environment(api, request, variables, mark)
    response = await api.start(container_id)
    try:
        await _require_not_stopped_meanwhile(api, request)
        return await _confirm_deployment(api, request, response, mark)
    except BackendRefused as error:
        # BackendRefused would mean that nothing was started.
        raise BackendUnavailable(str(error)) from error


async def _require_stopped(
    api: Api, request: StartRequest, found: Fence, deployments: Sequence[Deployment]
) -> None:
    """Raise if an earlier assignment runs or is starting."""
    container_id = request.container_id
    if any(deployment.is_open for deployment in deployments):
        raise StartSuperseded(container_id, "another deployment is queued or in progress")
    if found.assignment is None or found.assignment <= found.stopped_through:
        return
    await api.reserve_more(1)
    state = (await api.application(container_id)).state
    if state is ContainerState.UNKNOWN:
        raise BackendUnavailable(f"cannot determine whether {container_id} still runs")
    if state not in ENDED_STATES:
        raise StartSuperseded(container_id, f"assignment {found.assignment} still runs")


async def _write_environment(
    api: Api, request: StartRequest, known: Sequence[Variable], mark: str
) -> None:
    """Write the environment, and check by the last variable that all of it was written.

    Two writes at once, such as a repeated one, can create a variable twice; the container would get
    the value that no later write updates. Only a new variable can be created twice.
    """
    container_id = request.container_id
    await _delete_duplicates(api, container_id, known)
    values = fence.start_variables(request, previous=parse_fence(known), mark=mark)
    written = parse_fence(await api.write_variables(container_id, values))
    if written.assignment != request.assignment_id:
        raise BackendUnavailable(f"the environment of {container_id} was not written")
    if values.keys() - {variable.key for variable in known}:
        await api.reserve_more(1)
        await _delete_duplicates(api, container_id, await api.variables(container_id))


async def _delete_duplicates(
    api: Api, container_id: ContainerId, variables: Sequence[Variable]
) -> None:
    if duplicates := fence.duplicates(variables):
        await api.reserve_more(len(duplicates))
        for variable in duplicates:
            await api.delete_variable(container_id, variable.uuid)


async def _require_not_stopped_meanwhile(api: Api, request: StartRequest) -> None:
    found = parse_fence(await api.variables(request.container_id))
    try:
        found.require_startable(request.container_id, request.assignment_id)
    except StartSuperseded:
        if found.assignment == request.assignment_id:
            await api.reserve_more(CANCEL_AND_STOP_REQUESTS)
            with contextlib.suppress(StillRunning):
                await cancel_and_stop(api.with_purpose(RequestPurpose.STOP), request.container_id)
        raise


async def _confirm_deployment(
    api: Api, request: StartRequest, response: StartResponse, mark: str
) -> DeploymentId:
    """Return the deployment of the start, whatever Coolify answered.

    If the queue is full, Coolify returns the uuid of a deployment that does not exist; if a
    deployment is already queued (by a start whose response was lost), it returns no uuid.
    """
    if response.deployment_uuid and await api.deployment(response.deployment_uuid):
        return response.deployment_uuid
    await api.reserve_more(1)
    issued = fence.first_after(mark, await api.deployments_of(request.container_id))
    if issued is not None:
        return issued.uuid
    problem = f"Coolify did not queue the start of {request.container_id} ({response.message})"
    raise BudgetExhausted(problem, _QUEUE_FULL_RETRY_S)
