"""Observes many applications with two requests."""

from collections.abc import Sequence

from botpool.backends.coolify.api import Api
from botpool.backends.coolify.ownership import Ownership
from botpool.backends.coolify.responses import Application, Deployment
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ENDED_STATES, ContainerState, Observation

REQUESTS = 2
"""Open deployments and applications; plus one for each application that the list lacks."""
_FORMER_STATES = ENDED_STATES | {ContainerState.RESTARTING, ContainerState.DEGRADED}
"""During a deployment, these describe the old container or its removal."""
_MAX_UNLISTED = 5
"""How many missing applications one observation requests; the others wait for the next one."""


async def observe(
    api: Api, ownership: Ownership, container_ids: Sequence[ContainerId]
) -> dict[ContainerId, Observation]:
    """Return an observation of each container.

    The deployments are read first: a start from before this observation is then either reported as
    open, or its application is read after the deployment's end. In the other order, a deployment
    that ends between the two requests would leave an old status without an open deployment. A
    start during the observation may be missed; its caller ignores older observations.
    """
    open_deployments = await api.open_deployments()
    listed = {application.uuid: application for application in await ownership.list(api)}
    observations: dict[ContainerId, Observation] = {}
    unlisted = 0
    for container_id in container_ids:
        application = listed.get(container_id)
        if application is None:
            unlisted += 1
            if unlisted > _MAX_UNLISTED:
                observations[container_id] = _unknown_observation(container_id)
                continue
            application = await ownership.find_unlisted(api, container_id)
        if application is None:
            gone = Observation(container_id=container_id, state=ContainerState.GONE)
            observations[container_id] = gone
        elif not ownership.is_ours(container_id):
            # Foreign, ours without its tag, or missing in a wrong list: no evidence of anything.
            observations[container_id] = _unknown_observation(container_id)
        else:
            observations[container_id] = _observe(application, open_deployments)
    return observations


def _observe(application: Application, open_deployments: Sequence[Deployment]) -> Observation:
    own = next((d for d in open_deployments if d.is_of(application)), None)
    state = application.state
    detail = f"shows {application.status}"
    if not application.server_reachable:
        detail += ", but Coolify cannot reach its server"
    if own is not None and state in _FORMER_STATES:
        state = ContainerState.STARTING
    return Observation(
        container_id=application.uuid,
        state=state,
        deployment_id=own.uuid if own else None,
        deployment=own.state if own else None,
        status_unreliable=not application.server_reachable,
        unknown_status=application.unknown_status,
        detail=detail,
    )


def _unknown_observation(container_id: ContainerId) -> Observation:
    return Observation(
        container_id=container_id,
        state=ContainerState.UNKNOWN,
        detail="is missing in Coolify's list of Botpool's applications",
    )
