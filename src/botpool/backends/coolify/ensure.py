"""Ensures that a slot's application exists: finds it by name and tag, or creates it.

Names are not unique in Coolify and a create cannot be repeated safely, so each step reads first: a
create whose response was lost is found by the next call, and replicas that create at the same time
all choose the oldest application.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from botpool.backends.coolify.api import Api
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.formats import split_image
from botpool.backends.coolify.ownership import Ownership
from botpool.backends.coolify.responses import Application
from botpool.backends.coolify.stop import cancel_open, require_assignment_through
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ENDED_STATES, ContainerState

REQUESTS = 5
"""List, deployments, fence, cancel, stop; or list, create, list, delete, deployments."""


async def ensure(
    api: Api,
    ownership: Ownership,
    config: CoolifyConfig,
    spec: ContainerSpec,
    through: AssignmentId,
) -> ContainerId:
    application = _oldest_of(await ownership.list(api), spec.name)
    is_new = application is None
    if application is None:
        application = await _create(api, ownership, config, spec)
    await _stop_if_running(api, application, through)
    fields = _mutable_fields(spec)
    has_grace = is_new or _stop_grace_period(application) == _wanted_stop_grace_period(spec)
    if not has_grace or any(getattr(application, name) != fields[name] for name in fields):
        fields |= {"stop_grace_period": _wanted_stop_grace_period(spec)}
        await api.update(application.uuid, fields, pool=spec.pool_name)
    return application.uuid


async def _create(
    api: Api, ownership: Ownership, config: CoolifyConfig, spec: ContainerSpec
) -> Application:
    created = await api.create(_new_application(config, spec), pool=spec.pool_name)
    ownership.add(created)
    oldest = _oldest_of(await ownership.list(api), spec.name)
    if oldest is None:
        raise BackendUnavailable(f"{spec.name} was created, but Coolify does not list it yet")
    if oldest.uuid != created:
        await api.delete(created)
    return oldest


def _oldest_of(applications: Sequence[Application], name: str) -> Application | None:
    """Return the oldest application; within a second, the first in the list."""
    return min(
        (application for application in applications if application.name == name),
        key=lambda application: application.created_at,
        default=None,
    )


async def _stop_if_running(api: Api, application: Application, through: AssignmentId) -> None:
    """Raise unless the application is stopped and has no open deployment; stop it if necessary."""
    deployments = await api.deployments_of(application.uuid)
    is_starting = any(deployment.is_open for deployment in deployments)
    if not is_starting and application.state in ENDED_STATES:
        return
    if not is_starting and application.state is ContainerState.UNKNOWN:
        raise BackendUnavailable(
            f"cannot determine whether {application.name} runs ({application.status})"
        )
    await require_assignment_through(api, application.uuid, through)
    await cancel_open(api, deployments)
    await api.stop(application.uuid)
    raise StillRunning(f"{application.name} was running and is being stopped")


def _wanted_stop_grace_period(spec: ContainerSpec) -> int:
    """Return whole seconds between SIGTERM and SIGKILL; Coolify takes one at least."""
    return max(1, round(spec.stop_grace_s))


def _stop_grace_period(application: Application) -> int | None:
    return application.settings.stop_grace_period if application.settings else None


def _mutable_fields(spec: ContainerSpec) -> dict[str, Any]:
    """The fields of `Application` that a changed pool changes, under Coolify's names."""
    image, tag = split_image(spec.image)
    return {
        "docker_registry_image_name": image,
        "docker_registry_image_tag": tag,
        "limits_cpus": f"{spec.cpus:g}",
        "limits_memory": f"{spec.memory_mb}m",
    }


def _new_application(config: CoolifyConfig, spec: ContainerSpec) -> Mapping[str, Any]:
    location = {
        "project_uuid": config.project_uuid,
        "server_uuid": config.server_uuid,
        "environment_name": config.environment_name,
    }
    if config.destination_uuid is not None:
        location["destination_uuid"] = config.destination_uuid
    return {
        **location,
        **_mutable_fields(spec),
        "name": spec.name,
        "description": f"Slot of Botpool's pool {spec.pool_name}",
        "tags": [config.tag],
        # Coolify requires a port, although nothing listens there.
        "ports_exposes": "80",
        "autogenerate_domain": False,
        "instant_deploy": False,
        "stop_grace_period": _wanted_stop_grace_period(spec),
        # Otherwise a deployment starts the new container before it stops the old one.
        "is_consistent_container_name_enabled": True,
    }
