"""Converts errors of Docker: a BackendRefused names the setting to change; others may pass."""

from aiodocker import DockerError

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendError, BackendRefused, BackendUnavailable

_HOST = "backends.docker.host"
_NOT_FOUND = ("manifest unknown", "not found", "does not exist", "no matching manifest")
_NO_ACCESS = ("access denied", "denied:", "unauthorized", "403 forbidden")
_NO_CREDENTIALS = ("no basic auth credentials", "authentication required")
_INVALID_NAME = ("invalid reference format", "invalid repository name", "invalid tag format")
_CANNOT_PULL = _NOT_FOUND + _NO_ACCESS + _NO_CREDENTIALS + _INVALID_NAME
_CANNOT_RUN = ("oci runtime", "failed to create task", "no command specified", "exec format error")


def is_missing_image(error: DockerError) -> bool:
    """Whether Docker has no such image. A pull describes an invalid name with a better message."""
    message = error.message.lower()
    is_invalid = error.status == 400 and any(text in message for text in _INVALID_NAME)
    return is_invalid or (error.status == 404 and "no such image" in message)


def disk_full(message: str) -> BackendRefused | None:
    if "no space left on device" not in message.lower():
        return None
    return BackendRefused(
        _HOST, f"Docker's disk is full. Free some space there. Docker says “{message}”"
    )


def pull_failed(message: str, spec: ContainerSpec) -> BackendError:
    """Refuse if the registry rejected the image; otherwise a retry may help."""
    if full := disk_full(message):
        return full
    if any(text in message.lower() for text in _CANNOT_PULL):
        return BackendRefused(
            f"pools.{spec.pool_name}.image",
            f"{spec.image} cannot be pulled. Docker says “{message}”",
        )
    return BackendUnavailable(f"{spec.image} was not pulled: {message}")


def create_or_start_failed(error: DockerError, spec: ContainerSpec) -> BackendError:
    message = error.message.lower()
    if full := disk_full(error.message):
        return full
    if "network" in message and "not found" in message:
        return BackendRefused("backends.docker.network", f"Docker says “{error.message}”")
    if "network" in message and "is ambiguous" in message:
        # Two replicas created the network of a pool: the next try removes one of them.
        return BackendUnavailable(error.message)
    if any(text in message for text in _CANNOT_RUN):
        problem = f"{spec.image} cannot be run. Docker says “{error.message}”"
        return BackendRefused(f"pools.{spec.pool_name}.image", problem)
    if error.status == 400:
        return BackendRefused(
            f"pools.{spec.pool_name}", f"Docker refuses the container: “{error.message}”"
        )
    return request_failed(error)


def request_failed(error: DockerError) -> BackendError:
    if "permission denied" in error.message.lower():
        remedy = "Allow this user to use Docker's socket, for example with the group docker"
        return BackendRefused(_HOST, f"{error.message}. {remedy}.")
    return BackendUnavailable(error.message)


def name_taken(name: str, spec: ContainerSpec) -> BackendRefused:
    return BackendRefused(
        f"pools.{spec.pool_name}",
        f"Docker has a container {name} without Botpool's label. Remove or rename it.",
    )


def network_failed(error: DockerError, pool_name: str) -> BackendError:
    """Describe why Docker did not create the network of a pool."""
    if "address pool" in error.message or "not permitted" in error.message:
        return BackendRefused(
            "backends.docker.network",
            f"Docker cannot create a network for the pool {pool_name}: “{error.message}”. "
            "Name an existing network in this setting.",
        )
    return request_failed(error)


def network_taken(installation_id: str, pool_name: str) -> BackendRefused:
    return BackendRefused(
        "backends.docker.network",
        f"Docker has a network with the name of the pool {pool_name} of installation "
        f"{installation_id}, but without Botpool's labels. Remove it, or name a network here.",
    )
