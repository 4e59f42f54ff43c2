"""Stops an application: cancels its deployments, then stops its container.

Coolify's stop does not cancel a deployment, which would start the container again, so the cancel
comes first. Only an observation confirms that both worked.
"""

from botpool.backends.coolify import fence
from botpool.backends.coolify.api import Api
from botpool.domain.errors import StillRunning
from botpool.domain.ids import AssignmentId, ContainerId

CANCEL_AND_STOP_REQUESTS = 3
"""Deployments, cancel, stop."""
REQUESTS = 1 + CANCEL_AND_STOP_REQUESTS
"""The fence, then the requests above."""


async def stop(api: Api, container_id: ContainerId, assignment_id: AssignmentId | None) -> None:
    if assignment_id is not None:
        # The fence must be written before deployments are read: see start.py.
        await api.write_variable(container_id, fence.STOPPED_THROUGH, str(assignment_id))
    await cancel_and_stop(api, container_id)


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
    open_deployments = [d for d in await api.deployments_of(container_id) if d.is_open]
    for deployment in open_deployments:
        await api.cancel(deployment.uuid)
    return bool(open_deployments)
