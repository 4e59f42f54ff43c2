"""The body of Docker's request to create a container."""

from collections.abc import Mapping
from typing import Any

from botpool.backends.docker import placeholder_image
from botpool.backends.docker.config import DockerConfig
from botpool.backends.docker.slot_containers import ContainerDraft, ContainerKind
from botpool.backends.protocol import ContainerSpec

_MIB = 1024 * 1024


def create_body(
    draft: ContainerDraft, environment: Mapping[str, str], config: DockerConfig
) -> dict[str, Any]:
    body: dict[str, Any] = {"Labels": dict(draft.labels(config.installation_id))}
    if draft.kind is not ContainerKind.BOT:
        return body | {"Image": placeholder_image.IMAGE, "Cmd": [draft.kind]}
    return body | {
        "Image": draft.spec.image,
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "HostConfig": _host_config(draft.spec, config),
    }


def _host_config(spec: ContainerSpec, config: DockerConfig) -> dict[str, Any]:
    return {
        "NanoCpus": round(spec.cpus * 1_000_000_000),
        "Memory": spec.memory_mb * _MIB,
        # Equal to Memory: without swap a browser that needs more memory fails instead of crawling.
        "MemorySwap": spec.memory_mb * _MIB,
        "PidsLimit": config.pids_limit,
        "ShmSize": config.shm_mb * _MIB,
        "NetworkMode": config.network,
        "RestartPolicy": {"Name": "no"},
    }
