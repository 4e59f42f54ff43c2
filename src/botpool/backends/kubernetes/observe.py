"""Observes many slots with one list of Pods, and a single slot with one read of its Pod.

A Pod that the database expects and the API server does not have any more is UNKNOWN: a Pod that was
deleted by force is gone from the API server while its container runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.api import Api
from botpool.backends.kubernetes.config import KubernetesConfig
from botpool.backends.kubernetes.pod_list import grouped_by_slot
from botpool.backends.kubernetes.pod_state import (
    Context,
    Node,
    Pod,
    has_stopped,
    needs_node,
    node_of,
    observe_pod,
    uid_of,
)
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState, ExpectedRun, Observation

Slots = Mapping[ContainerId, str | None]
"""The slot's name by container id; None for an id that is not of this installation."""


async def read_pods(
    api: Api, slots: Slots, expected: Mapping[ContainerId, ExpectedRun]
) -> list[Pod]:
    """Read the Pods of these slots. A single expected Pod is read by its name."""
    known = {container_id: slot for container_id, slot in slots.items() if slot is not None}
    if not known:
        return []
    if len(known) == 1:
        (container_id, slot), *_ = known.items()
        if run := expected.get(container_id):
            name = names.pod_name(api.installation_id, slot, run.assignment_id)
            pod = await api.read_pod(name)
            if pod is not None and api.is_ours(pod):
                return [pod]
            if run.deployment_id is not None:
                return []
        return list(await api.list_pods(slot))
    return list(await api.list_pods())


async def read_nodes(api: Api, pods: Iterable[Pod]) -> Mapping[str, Node]:
    """Read the nodes that decide about Pods that do not end; usually none."""
    wanted = {name for pod in pods if needs_node(pod) and (name := node_of(pod)) is not None}
    nodes = [await api.read_node(name) for name in sorted(wanted)]
    return {node.name: node for node in nodes if node is not None}


async def observe(
    api: Api,
    config: KubernetesConfig,
    slots: Slots,
    expected: Mapping[ContainerId, ExpectedRun],
    pods: Sequence[Pod],
) -> Mapping[ContainerId, Observation]:
    """Return the observation of each slot."""
    by_slot = grouped_by_slot(pods)
    context = Context(
        container_id=ContainerId(""),
        now=datetime.now(UTC),
        pull_grace_s=config.pull_grace_s,
        nodes=await read_nodes(api, pods),
    )
    observations = {}
    for container_id, slot in slots.items():
        found = by_slot.get(names.label_value(slot), []) if slot is not None else []
        own = replace(context, container_id=container_id)
        observations[container_id] = observe_slot(found, expected.get(container_id), own)
    return observations


def observe_slot(
    pods: Sequence[Pod], expected: ExpectedRun | None, context: Context
) -> Observation:
    """Choose the Pod that decides about a slot, and observe it.

    A Pod of a later run comes first: the database has lost that run. Then comes the expected Pod,
    and without one any Pod that has not stopped, so that no stop is confirmed too early.
    """
    ordered = sorted(pods, key=lambda pod: names.run_of(pod) or 0, reverse=True)
    running = [pod for pod in ordered if not has_stopped(pod)]
    if expected is not None:
        for pod in running:
            if (names.run_of(pod) or 0) > expected.assignment_id:
                return observe_pod(pod, context)
        for pod in ordered:
            if names.run_of(pod) == expected.assignment_id and expected.deployment_id in (
                None,
                uid_of(pod),
            ):
                return observe_pod(pod, context)
        if expected.deployment_id is not None:
            return Observation(
                container_id=context.container_id,
                state=ContainerState.UNKNOWN,
                assignment_id=expected.assignment_id,
                detail="has no Pod any more, and Kubernetes never reported its end",
            )
    chosen = next(iter(running or ordered), None)
    if chosen is None:
        return Observation(container_id=context.container_id, state=ContainerState.GONE)
    return observe_pod(chosen, context)
