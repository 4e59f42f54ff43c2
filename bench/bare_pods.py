"""A user's own `create pod` of the bot that Botpool starts in `first_calls`."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.bare_agents import BareAgents
from botpool.backends.kubernetes import KubernetesConfig
from botpool.backends.kubernetes.pod_template import pod_of
from botpool.backends.protocol import ContainerSpec, StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from tests.support.kubernetes import Cluster
from tests.support.kubernetes_installation import TEMPLATE


def bare_pod(
    spec: ContainerSpec, environment: Mapping[str, str], entrypoint: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the Pod that Botpool creates, without its gate and finalizer, under a new name."""
    request = StartRequest(
        container_id=ContainerId("bench.bare"),
        assignment_id=AssignmentId(1),
        correlation_id="bench",
        environment=environment,
        entrypoint=entrypoint,
    )
    config = KubernetesConfig(installation_id="bench", pod_template=TEMPLATE)
    pod = pod_of(config, spec, request)
    pod["metadata"]["name"] = f"bare-{secrets.token_hex(4)}"
    del pod["metadata"]["finalizers"], pod["spec"]["schedulingGates"]
    return pod


@dataclass(frozen=True, slots=True, kw_only=True)
class BarePods:
    cluster: Cluster
    namespace: str
    spec: ContainerSpec
    agents: BareAgents

    async def creates(self, count: int) -> list[float]:
        """Return the time from `create pod` to the first call of each Pod."""
        bots = self.agents.new_bots(count)
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        began = time.monotonic()
        for environment in bots.values():
            pod = bare_pod(self.spec, environment)
            await asyncio.to_thread(self.cluster.kubectl.request, "POST", path, pod)
        times = [called_at - began for called_at in await self.agents.calls.of(list(bots))]
        self.agents.calls.let_bots_end()
        self.cluster.clear(self.namespace)
        while await asyncio.to_thread(self.cluster.pods, self.namespace):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return times
