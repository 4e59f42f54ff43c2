"""Converts answers of the API server to errors that name the setting or the permission."""

import re
from collections.abc import Mapping
from typing import Any

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendError, BackendRefused, BackendUnavailable

SECTION = "backends.kubernetes"
_FORBIDDEN = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


def message_of(content: object) -> str:
    """Return the message of a Status object; empty if the content is none."""
    if isinstance(content, Mapping) and content.get("kind") == "Status":
        return str(content.get("message") or content.get("reason") or "")
    return ""


def missing_permission(verb: str, resource: str, namespace: str | None) -> BackendRefused:
    where = f"in the namespace {namespace}" if namespace else "in the cluster"
    return BackendRefused(
        SECTION,
        f"the permission to {verb} {resource} {where} is missing. Add it to the Role of Botpool",
    )


def forbidden(content: object) -> BackendRefused | None:
    """Convert a 403 for a missing permission; None for a refusal of the object itself."""
    match = _FORBIDDEN.search(message_of(content))
    if match is None:
        return None
    return missing_permission(match["verb"], match["resource"], match["namespace"])


def unauthorized() -> BackendRefused:
    return BackendRefused(
        f"{SECTION}.kubeconfig",
        "the API server does not accept Botpool's credentials (401). The token or certificate has "
        "expired or is of another cluster; Botpool has read it again",
    )


def missing_namespace(content: object) -> BackendRefused | None:
    """Convert a 404 for the namespace."""
    details = content.get("details") if isinstance(content, Mapping) else None
    if not isinstance(details, Mapping) or details.get("kind") != "namespaces":
        return None
    problem = f"the cluster has no namespace {details.get('name')}. Create it, or name another"
    return BackendRefused(f"{SECTION}.namespace", problem)


def create_refused(status: int, content: object, spec: ContainerSpec) -> BackendError:
    """Convert the refusal of a Pod. Only an exhausted quota is worth a wait."""
    message = message_of(content)
    if "exceeded quota" in message:
        return BackendUnavailable(f"the namespace has no room: {message}")
    pool = f"pools.{spec.pool_name}"
    if "failed quota" in message:
        return BackendRefused(pool, f"the quota of the namespace refuses its Pods: {message}")
    if "violates PodSecurity" in message:
        problem = f"the namespace's pod security refuses its Pods: {message}"
        return BackendRefused(f"{SECTION}.pod_template", problem)
    if status in (403, 413, 422):
        return BackendRefused(pool, f"Kubernetes refuses its Pods ({status}): {message}")
    return BackendUnavailable(f"create: the API server answered {status}: {message}")


def has_wrong_uid(content: Mapping[str, Any]) -> bool:
    """Whether a 422 says that the Pod of this name has another uid."""
    causes = (content.get("details") or {}).get("causes") or []
    return any(cause.get("field") == "metadata.uid" for cause in causes)
