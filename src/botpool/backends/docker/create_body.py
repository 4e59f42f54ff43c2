"""The body of Docker's request to create a container."""

from typing import Any

from botpool.backends.docker import placeholder_image
from botpool.backends.docker.config import DockerConfig, PoolIsolation
from botpool.backends.docker.slot_containers import ContainerDraft
from botpool.backends.protocol import ContainerSpec, StartRequest

_MIB = 1024 * 1024


def create_body(
    draft: ContainerDraft, request: StartRequest | None, config: DockerConfig, network: str | None
) -> dict[str, Any]:
    """Return the body; only a bot's container, which is started, has a request and a network."""
    body: dict[str, Any] = {"Labels": dict(draft.labels(config.installation_id))}
    if request is None:
        return body | {"Image": placeholder_image.IMAGE, "Cmd": [draft.kind]}
    if request.command:
        body["Cmd"] = list(request.command)
    if request.entrypoint:
        body["Entrypoint"] = list(request.entrypoint)
    return body | {
        "Image": draft.spec.image,
        "Env": [f"{key}={value}" for key, value in request.environment.items()],
        "HostConfig": _host_config(draft.spec, config, network),
    }


def _host_config(spec: ContainerSpec, config: DockerConfig, network: str | None) -> dict[str, Any]:
    return {
        **_isolation(config.isolation.get(spec.pool_name, PoolIsolation()), config),
        "NanoCpus": round(spec.cpus * 1_000_000_000),
        "Memory": spec.memory_mb * _MIB,
        # Equal to Memory: without swap a browser that needs more memory fails instead of crawling.
        "MemorySwap": spec.memory_mb * _MIB,
        "PidsLimit": config.pids_limit,
        "ShmSize": config.shm_mb * _MIB,
        "NetworkMode": network,
        "RestartPolicy": {"Name": "no"},
        # Two files of half the size each: Docker deletes the older one.
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": f"{max(1, config.log_mb * 1024 // 2)}k", "max-file": "2"},
        },
    }


def _isolation(isolation: PoolIsolation, config: DockerConfig) -> dict[str, Any]:
    body: dict[str, Any] = {
        "SecurityOpt": ["no-new-privileges:true"],
        "CapDrop": ["ALL"],
        "CapAdd": list(isolation.capabilities),
    }
    if isolation.read_only:
        body["ReadonlyRootfs"] = True
        body["Tmpfs"] = {"/tmp": f"rw,nosuid,nodev,mode=1777,size={config.tmp_mb}m"}  # noqa: S108
    return body
