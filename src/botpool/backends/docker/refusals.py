"""Docker's complaints in our words: what somebody must put right, and what may pass by itself."""

from aiodocker import DockerError

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendError, BackendRefused, BackendUnavailable

_HOST = "backends.docker.host"
_NOT_THERE = ("manifest unknown", "not found", "does not exist", "no matching manifest")
_NO_ACCESS = ("access denied", "denied:", "unauthorized", "403 forbidden")
_NO_CREDENTIALS = ("no basic auth credentials", "authentication required")
_NOT_A_NAME = ("invalid reference format", "invalid repository name", "invalid tag format")
_NO_PULL = _NOT_THERE + _NO_ACCESS + _NO_CREDENTIALS + _NOT_A_NAME
_CANNOT_RUN = ("oci runtime", "failed to create task", "no command specified", "exec format error")


def no_space(said: str) -> BackendRefused | None:
    if "no space left on device" not in said.lower():
        return None
    return BackendRefused(_HOST, f"Docker's disk is full. Make room there. Docker says “{said}”")


def not_pulled(said: str, spec: ContainerSpec) -> BackendError:
    """Why an image did not come: an answer of the registry stands; silence of it may pass."""
    words = said.lower()
    if full := no_space(said):
        return full
    if any(word in words for word in _NO_PULL):
        return BackendRefused(
            f"pools.{spec.pool_name}.image", f"{spec.image} cannot be pulled. Docker says “{said}”"
        )
    return BackendUnavailable(f"{spec.image} was not pulled: {said}")


def not_made(error: DockerError, spec: ContainerSpec) -> BackendError:
    """Why a container was not made or started."""
    words = error.message.lower()
    if full := no_space(error.message):
        return full
    if "network" in words and "not found" in words:
        return BackendRefused("backends.docker.network", f"Docker says “{error.message}”")
    if any(word in words for word in _CANNOT_RUN):
        problem = f"{spec.image} cannot be run. Docker says “{error.message}”"
        return BackendRefused(f"pools.{spec.pool_name}.image", problem)
    if error.status == 400:
        return BackendRefused(
            f"pools.{spec.pool_name}", f"Docker refuses its container: “{error.message}”"
        )
    return unavailable(error)


def unavailable(error: DockerError) -> BackendError:
    """Docker did not do it, for a reason that is nobody's setting."""
    if "permission denied" in error.message.lower():
        help_text = "Let this user use Docker's socket, for one by the group docker"
        return BackendRefused(_HOST, f"{error.message}. {help_text}.")
    return BackendUnavailable(error.message)


def taken_name(name: str, spec: ContainerSpec) -> BackendRefused:
    return BackendRefused(
        f"pools.{spec.pool_name}",
        f"Docker has a container {name} without our label. Remove it or give it another name.",
    )
