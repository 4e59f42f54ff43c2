"""Seeing that a slot's application exists: found by name and tag, else made.

Names are not unique in Coolify and a create cannot be repeated safely, so that every step looks
first: a create whose answer was lost is found by the next call, and of replicas that create at
once all end with the oldest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from botpool.backends.coolify import images
from botpool.backends.coolify.answers import Application
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.config import CoolifyConfig
from botpool.backends.coolify.ownership import Ownership
from botpool.backends.coolify.stopping import cancel_deployments
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, StillRunning
from botpool.domain.ids import ContainerId
from botpool.domain.observation import DOWN, ContainerState

REQUESTS = 5
"""List, deployments, cancel, stop or update; or list, create, list, delete, deployments."""


async def ensure(
    api: Api, ownership: Ownership, config: CoolifyConfig, spec: ContainerSpec
) -> ContainerId:
    found = _oldest(await ownership.list(api), spec.name)
    if found is None:
        found = await _make(api, ownership, config, spec)
    await _vacate(api, found)
    wanted = _changeable(spec)
    if _present(found) != wanted:
        await api.update(found.uuid, wanted, pool=spec.pool_name)
    return found.uuid


async def _make(
    api: Api, ownership: Ownership, config: CoolifyConfig, spec: ContainerSpec
) -> Application:
    made = await api.create(_new(config, spec), pool=spec.pool_name)
    ownership.add(made)
    oldest = _oldest(await ownership.list(api), spec.name)
    if oldest is None:
        raise BackendUnavailable(f"{spec.name} was made, but is not listed yet")
    if oldest.uuid != made:
        await api.delete(made)
    return oldest


def _oldest(applications: Sequence[Application], name: str) -> Application | None:
    """Of those made in the same second, the first in the list: Coolify hides their numbers."""
    return min(
        (application for application in applications if application.name == name),
        key=lambda application: application.created_at,
        default=None,
    )


async def _vacate(api: Api, found: Application) -> None:
    """Hand out nothing that runs, is on its way, or may do so for all we know."""
    is_coming = await cancel_deployments(api, found.uuid)
    if not is_coming and found.state in DOWN:
        return
    if not is_coming and found.state is ContainerState.UNKNOWN:
        raise BackendUnavailable(f"it is not known whether {found.name} runs ({found.status})")
    await api.stop(found.uuid)
    raise StillRunning(f"{found.name} was found running and is being stopped")


def _changeable(spec: ContainerSpec) -> Mapping[str, str]:
    image = images.split(spec.image)
    return {
        "docker_registry_image_name": image.name,
        "docker_registry_image_tag": image.tag,
        "limits_cpus": f"{spec.cpus:g}",
        "limits_memory": f"{spec.memory_mb}m",
    }


def _present(application: Application) -> Mapping[str, str]:
    return {
        "docker_registry_image_name": application.image_name,
        "docker_registry_image_tag": application.image_tag,
        "limits_cpus": application.cpus,
        "limits_memory": application.memory,
    }


def _new(config: CoolifyConfig, spec: ContainerSpec) -> Mapping[str, Any]:
    place = {
        "project_uuid": config.project_uuid,
        "server_uuid": config.server_uuid,
        "environment_name": config.environment_name,
    }
    if config.destination_uuid is not None:
        place["destination_uuid"] = config.destination_uuid
    return {
        **place,
        **_changeable(spec),
        "name": spec.name,
        "description": f"Slot of Botpool's pool {spec.pool_name}",
        "tags": [config.tag],
        # Nothing is served from it, but Coolify asks for a port.
        "ports_exposes": "80",
        "autogenerate_domain": False,
        "instant_deploy": False,
        # Else a deployment starts the new container before it ends the old one.
        "is_consistent_container_name_enabled": True,
    }
