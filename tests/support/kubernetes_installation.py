"""An installation on a real Kubernetes: `botpool serve`, Pods and agents, under the Role."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.bot_image import PYTHON, archive
from tests.support.docker_installation import BOT
from tests.support.fixed_port_installation import FixedPortInstallation
from tests.support.kubernetes import Cluster
from tests.support.kubernetes.role import create_role, write_kubeconfig
from tests.support.ports import free_port

IMAGE = "docker.io/library/kubernetes-demo:1"
TEMPLATE = {
    # The bots report to this machine, and the image's only user is root.
    "spec": {"hostNetwork": True, "securityContext": {"runAsNonRoot": False}}
}


@dataclass(slots=True, kw_only=True)
class KubernetesInstallation(FixedPortInstallation):
    cluster: Cluster
    namespace: str
    installation_id: str

    def pods(self) -> list[dict[str, Any]]:
        """Return all Pods of this installation."""
        selector = f"botpool.dev/installation={self.installation_id}"
        return self.cluster.pods(self.namespace, selector)

    async def clear(self) -> None:
        for server in self.servers:
            server.kill()


@asynccontextmanager
async def kubernetes_installation(
    cluster: Cluster,
    namespace: str,
    database_url: str,
    data_dir: Path,
    *,
    kubeconfig: Path | None = None,
    **settings: str,
) -> AsyncIterator[KubernetesInstallation]:
    """Create an installation without replicas. Its only rights are those of the Role."""
    files = {"/bot/bot.py": BOT.read_bytes()}
    cluster.import_image(archive([IMAGE], [PYTHON, "/bot/bot.py"], files))
    if kubeconfig is None:
        create_role(cluster, namespace)
        kubeconfig = write_kubeconfig(cluster, namespace, data_dir)
    template = data_dir / "pod.yaml"
    template.write_text(json.dumps(TEMPLATE))
    port = free_port()
    installation_id = f"kubernetes-{secrets.token_hex(4)}"
    installed = KubernetesInstallation(
        database_url=database_url,
        data_dir=data_dir,
        port=port,
        cluster=cluster,
        namespace=namespace,
        installation_id=installation_id,
        settings={
            "installation.id": installation_id,
            "server.public_url": f"http://127.0.0.1:{port}",
            "backends.kubernetes.kubeconfig": str(kubeconfig),
            "backends.kubernetes.pod_template": str(template),
            "agent.heartbeat_interval_ms": "500",
            **settings,
        },
    )
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


def pool(pool_name: str, max_size: int, **more: object) -> dict[str, str]:
    """Return the settings of one pool of small Pods."""
    fields = {
        "backend": "kubernetes",
        "image": IMAGE,
        "max_size": max_size,
        "cpus": 0.15,
        "memory_mb": 96,
        "stop_grace_s": 5,
        **more,
    }
    return {f"pools.{pool_name}.{name}": str(value) for name, value in fields.items()}
