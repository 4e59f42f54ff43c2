"""Stops an application: cancels its deployments, then stops its container.

Coolify's stop does not cancel a deployment, which would start the container again, so the cancel
comes first. Only an observation confirms that both worked.

Coolify stops whatever runs in the application, so the fence is read first: an application that
serves a later assignment is left alone. A request that Coolify receives after the hand-over, though
Botpool sent it before, cannot be fenced (docs/howto/coolify.md).
"""

from collections.abc import Sequence

from botpool.backends.coolify import fence
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.fence import Fence, parse_fence
from botpool.backends.coolify.responses import Deployment
from botpool.domain.errors import BackendRefused, CallSuperseded, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId

CANCEL_AND_STOP_REQUESTS = 3
"""Deployments, cancel, stop."""
REQUESTS = 2 + CANCEL_AND_STOP_REQUESTS
"""Read the fence and write it, then the requests above."""


async def stop(api: Api, container_id: ContainerId, assignment_id: AssignmentId) -> None:
    found = await _read_fence(api, container_id)
    if found.serves_after(assignment_id):
        return
    if found.stopped_through < assignment_id:
        # The fence must be written before deployments are read: see start.py.
        await api.write_variable(container_id, fence.STOPPED_THROUGH, str(assignment_id))
    await cancel_and_stop(api, container_id)


async def require_assignment_through(
    api: Api, container_id: ContainerId, through: AssignmentId
) -> None:
    """Raise CallSuperseded if the application serves a later assignment. Send one request."""
    found = await _read_fence(api, container_id)
    if found.serves_after(through):
        raise CallSuperseded(container_id, f"assignment {found.assignment} came after {through}")


async def _read_fence(api: Api, container_id: ContainerId) -> Fence:
    """Read the fence. A token that cannot read values must still be able to stop: no fence."""
    try:
        return parse_fence(await api.variables(container_id))
    except BackendRefused:
        return parse_fence([])


async def cancel_and_stop(api: Api, container_id: ContainerId) -> None:
    """Send two requests, or four if a deployment is open.

    An open deployment would undo the stop, so its end is checked first.
    """
    if await cancel_deployments(api, container_id):
        await api.reserve_more(1)
        if any(deployment.is_open for deployment in await api.deployments_of(container_id)):
            raise StillRunning(f"a deployment of {container_id} is being cancelled")
    await api.stop(container_id)


async def cancel_deployments(api: Api, container_id: ContainerId) -> bool:
    """Cancel the open deployments. Return whether there were any."""
    return await cancel_open(api, await api.deployments_of(container_id))


async def cancel_open(api: Api, deployments: Sequence[Deployment]) -> bool:
    """Cancel those deployments that are open. Return whether there were any."""
    open_deployments = [deployment for deployment in deployments if deployment.is_open]
    for deployment in open_deployments:
        await api.cancel(deployment.uuid)
    return bool(open_deployments)
