"""Starts a run in two steps: create a Pod that cannot be scheduled, then open its gate.

Between the steps, the engine records the Pod's uid under the version of the slot. So only the owner
of the slot opens the gate. What another replica does late has no effect:

- a create leaves a Pod that is never scheduled, and that the cleanup removes;
- an opened gate of a Pod that was deleted gets 404, or 422 if a new Pod has the name.
"""

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.api import Api, Replaced
from botpool.backends.kubernetes.config import KubernetesConfig
from botpool.backends.kubernetes.pod_state import is_deleted, uid_of
from botpool.backends.kubernetes.pod_template import pod_of
from botpool.backends.protocol import ContainerSpec, StartRequest
from botpool.domain.errors import BackendRefused, BackendUnavailable, StartSuperseded
from botpool.domain.ids import DeploymentId


async def prepare(
    api: Api, config: KubernetesConfig, spec: ContainerSpec, request: StartRequest
) -> DeploymentId:
    """Create the Pod of a run with a closed gate, or find the Pod of an earlier call."""
    pod = pod_of(config, spec, request)
    created = await api.create_pod(pod, spec)
    if created is not None:
        return uid_of(created)
    name = pod["metadata"]["name"]
    existing = await api.read_pod(name)
    if existing is None:
        raise BackendUnavailable(f"the Pod {name} was removed while it was created")
    if not api.is_ours(existing):
        raise BackendRefused(
            f"pools.{spec.pool_name}",
            f"the namespace has a Pod {name} without Botpool's label. Remove it",
        )
    if is_deleted(existing):
        detail = f"assignment {request.assignment_id} was stopped"
        raise StartSuperseded(request.container_id, detail)
    return uid_of(existing)


async def open_gate(api: Api, request: StartRequest, slot: str) -> None:
    """Let the scheduler place the Pod. The only function that opens a gate; always with the uid."""
    assert request.deployment_id is not None, "the engine records the Pod before it is started"
    name = names.pod_name(api.installation_id, slot, request.assignment_id)
    try:
        patch = {"spec": {"schedulingGates": None}}
        pod = await api.patch_pod(name, request.deployment_id, patch)
    except Replaced:
        pod = None
    if pod is None or is_deleted(pod):
        detail = f"assignment {request.assignment_id} was stopped, or its Pod was deleted"
        raise StartSuperseded(request.container_id, detail)
