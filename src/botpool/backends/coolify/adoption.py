"""Takes over applications that another system created, for `botpool import`.

These are the only calls that touch applications without this installation's tag. The caller names
each application by its uuid.
"""

from collections.abc import Mapping, Sequence

from botpool.backends.coolify.api import Api
from botpool.backends.coolify.ownership import Ownership
from botpool.backends.coolify.responses import Application
from botpool.backends.coolify.stop import cancel_deployments
from botpool.backends.protocol import ForeignContainer
from botpool.domain.errors import ContainerGone
from botpool.domain.ids import ContainerId

FIND_REQUESTS = 1
ADOPT_REQUESTS = 2
_STOP_GRACE_S = 30
"""Until `ensure` sets the pool's `stop_grace_s` before the first start."""
DELETE_REQUESTS = 3
"""Deployments, cancel, delete."""


async def find(
    api: Api, container_ids: Sequence[ContainerId]
) -> Mapping[ContainerId, ForeignContainer]:
    return {
        application.uuid: ForeignContainer(
            container_id=application.uuid,
            name=application.name,
            image=_image_of(application),
        )
        for application in await api.list_all()
        if application.uuid in set(container_ids)
    }


async def adopt(api: Api, ownership: Ownership, container_id: ContainerId, name: str) -> None:
    """Rename before the tag: with the tag, the name decides to which slot the application belongs.

    Both calls can be repeated.
    """
    fields = {
        "name": name,
        "stop_grace_period": _STOP_GRACE_S,
        "is_consistent_container_name_enabled": True,
    }
    await api.update(container_id, fields)
    await api.add_tag(container_id, ownership.tag)
    ownership.add(container_id)


async def delete(api: Api, container_id: ContainerId) -> None:
    try:
        await cancel_deployments(api, container_id)
        await api.delete(container_id)
    except ContainerGone:
        return


def _image_of(application: Application) -> str | None:
    if application.docker_registry_image_name is None:
        return None
    tag = application.docker_registry_image_tag or "latest"
    return f"{application.docker_registry_image_name}:{tag}"
