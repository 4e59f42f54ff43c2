"""Looking at many applications with two requests."""

from collections.abc import Sequence

from botpool.backends.coolify.answers import Application, Deployment
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.ownership import Ownership
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState, Observation

REQUESTS = 2
"""Deployments under way, applications; and one for each that the list lacks."""
_MOST_UNLISTED = 5
"""How many that the list lacks are asked for by one look: the others can wait for the next."""


async def observe(
    api: Api, ownership: Ownership, container_ids: Sequence[ContainerId]
) -> dict[ContainerId, Observation]:
    """What each shows.

    Deployments are read first. A start that was issued before this look is then seen under way,
    or its application is read after its end; the other way round, a deployment that ends between
    the two requests would leave the status from before it with nothing under way. A start that
    is issued during the look may be missed: its caller does not count older looks.
    """
    under_way = await api.deployments_under_way()
    listed = {application.uuid: application for application in await ownership.list(api)}
    seen: dict[ContainerId, Observation] = {}
    asked = 0
    for container_id in container_ids:
        application = listed.get(container_id)
        if application is None:
            asked += 1
            if asked > _MOST_UNLISTED:
                seen[container_id] = _unknown(container_id)
                continue
            application = await ownership.find_unlisted(api, container_id)
        if application is None:
            seen[container_id] = Observation(container_id=container_id, state=ContainerState.GONE)
        elif not ownership.is_ours(container_id):
            # Another's, or ours without its tag, or the list is wrong: no evidence of anything.
            seen[container_id] = _unknown(container_id)
        else:
            seen[container_id] = _observe(application, under_way)
    return seen


def _observe(application: Application, under_way: Sequence[Deployment]) -> Observation:
    own = next((each for each in under_way if each.is_of(application)), None)
    state = application.state
    detail = f"shows {application.status}"
    if not application.server_reachable:
        detail += ", but its server cannot be reached"
    if own is not None and state is ContainerState.EXITED:
        state = ContainerState.STARTING
    return Observation(
        container_id=application.uuid,
        state=state,
        deployment_id=own.uuid if own else None,
        deployment=own.state if own else None,
        status_unreliable=not application.server_reachable,
        detail=detail,
    )


def _unknown(container_id: ContainerId) -> Observation:
    return Observation(
        container_id=container_id,
        state=ContainerState.UNKNOWN,
        detail="is not in Coolify's list of ours",
    )
