"""Remembers why the Pods of a pool cannot start, for readiness, `pool show` and doctor.

A pool's problem ends when a Pod of the pool runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.pod_state import Pod, is_wrong_setup, uid_of
from botpool.domain.errors import BackendRefused
from botpool.domain.ids import ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, Observation


@dataclass(slots=True)
class SetupProblems:
    _by_pool: dict[str, str] = field(default_factory=dict)

    def learn(self, pods: Sequence[Pod], observations: Mapping[ContainerId, Observation]) -> None:
        """Take the problems from observations."""
        pools: dict[DeploymentId | None, str] = {
            uid_of(pod): (pod["metadata"].get("labels") or {}).get(names.POOL_LABEL, "")
            for pod in pods
        }
        for observation in observations.values():
            pool = pools.get(observation.deployment_id)
            if not pool:
                continue
            if is_wrong_setup(observation):
                self._by_pool[pool] = f"the container {observation.detail}"
            elif observation.state is ContainerState.RUNNING:
                self._by_pool.pop(pool, None)

    def refusals(self) -> list[BackendRefused]:
        return [BackendRefused(f"pools.{pool}", why) for pool, why in self._by_pool.items()]
