"""Converts Coolify's statuses to states. An unknown status is no evidence of anything."""

import re

from botpool.domain.observation import ContainerState, DeploymentState

_CONTAINERS = {
    "running": ContainerState.RUNNING,
    "starting": ContainerState.STARTING,
    "restarting": ContainerState.STARTING,
    "degraded": ContainerState.DEGRADED,
    "exited": ContainerState.EXITED,
}
_DEPLOYMENTS = {
    "queued": DeploymentState.QUEUED,
    "in_progress": DeploymentState.IN_PROGRESS,
    "finished": DeploymentState.FINISHED,
    "failed": DeploymentState.FAILED,
    "cancelled-by-user": DeploymentState.CANCELLED,
}


def container_state(status: str, *, server_reachable: bool) -> ContainerState:
    """Parse `running:healthy` or `running (healthy)`; the health lags by minutes and is ignored.

    Coolify reports every application of an unreachable server as exited.
    """
    if not server_reachable:
        return ContainerState.UNKNOWN
    word = re.split(r"[:( ]", status.strip().lower(), maxsplit=1)[0]
    return _CONTAINERS.get(word, ContainerState.UNKNOWN)


def deployment_state(status: str) -> DeploymentState | None:
    return _DEPLOYMENTS.get(status)
