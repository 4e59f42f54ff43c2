"""The set-up of the crash tests on Kubernetes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.crash_installation import POOL_NAME, CrashInstallation
from tests.support.kubernetes import Cluster
from tests.support.kubernetes_installation import TEMPLATE

CALL_TIMEOUT_S = 5.0
"""A busy API server needs more time than a process."""


@dataclass(slots=True, kw_only=True)
class KubernetesCrashInstallation(CrashInstallation):
    cluster: Cluster
    namespace: str
    kubeconfig: Path
    image: str
    recorder_url: str

    def backend_settings(self) -> Mapping[str, Any]:
        template = self.folder / "pod.yaml"
        template.write_text(json.dumps(TEMPLATE))
        pool = {
            "backend": "kubernetes",
            "image": self.image,
            "max_size": 1,
            "cpus": 0.05,
            "memory_mb": 96,
            "stop_grace_s": 1,
        }
        kubernetes = {"kubeconfig": str(self.kubeconfig), "pod_template": str(template)}
        return {
            "pools": {POOL_NAME: pool},
            "backends": {"kubernetes": kubernetes},
            "server": {"port": self.port, "public_url": f"http://127.0.0.1:{self.port}"},
        }

    def fork_server_options(self) -> Mapping[str, Any]:
        return {"call_timeout_s": CALL_TIMEOUT_S}

    def post(self, key: str, **bot_data: object) -> str:
        return CrashInstallation.post(self, key, recorder=self.recorder_url, **bot_data)

    def containers(self) -> set[str]:
        """Return the slots, after a cleanup has removed the Pods that the crash left."""
        response = self.client.post("/v1/maintenance/cleanup")
        assert response.status_code == 200, response.text
        self.wait_until(lambda: not self._pods(), f"Pods are left: {self._pods()}")
        return self.containers_of_slots()

    def processes(self) -> Sequence[Any]:
        """Return the Pods whose container may run."""
        return [
            pod["metadata"]["name"]
            for pod in self._pods()
            for status in pod["status"].get("containerStatuses", [])
            if "running" in status["state"]
        ]

    def _pods(self) -> list[dict[str, Any]]:
        return self.cluster.pods(self.namespace)
