"""BotEnding what runs in an application, or is on its way there.

Coolify's stop does not cancel a deployment, which would bring the container back: cancel first.
Whether both worked is for a look to say.
"""

from botpool.backends.coolify import fence
from botpool.backends.coolify.api import Api
from botpool.domain.errors import StillRunning
from botpool.domain.ids import AssignmentId, ContainerId

END_REQUESTS = 3
"""Deployments, cancel, stop."""
REQUESTS = 1 + END_REQUESTS
"""The fence before them."""


async def stop(api: Api, container_id: ContainerId, assignment_id: AssignmentId | None) -> None:
    if assignment_id is not None:
        # Before anything is looked for: see starting.py.
        await api.note(container_id, fence.STOPPED_THROUGH, str(assignment_id))
    await end(api, container_id)


async def end(api: Api, container_id: ContainerId) -> None:
    """Two requests, and two more if a deployment was under way: it must be seen to be over.

    A stop that is sent while one still is would be undone by it.
    """
    if await cancel_deployments(api, container_id):
        await api.pay_more(1)
        if any(each.is_under_way for each in await api.deployments_of(container_id)):
            raise StillRunning(f"a deployment of {container_id} is being cancelled")
    await api.stop(container_id)


async def cancel_deployments(api: Api, container_id: ContainerId) -> bool:
    """Whether any was under way."""
    under_way = [each for each in await api.deployments_of(container_id) if each.is_under_way]
    for deployment in under_way:
        await api.cancel(deployment.uuid)
    return bool(under_way)
