"""Checks Botpool's permissions with one SelfSubjectAccessReview for each verb."""

import asyncio
from dataclasses import dataclass

from botpool.backends.kubernetes import error_messages
from botpool.backends.kubernetes.connection import Call, Connection, Operation
from botpool.domain.errors import BackendRefused, BackendUnavailable

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REQUIRED = (
    *(("pods", "", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ("pods", "log", "get"),
)
"""Resource, subresource and verb, in the namespace of the Pods."""
ON_NODES = ("get", "list")
"""Verbs on nodes, of the optional ClusterRole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    missing: tuple[str, ...]
    """Each as `verb resource`."""
    missing_on_nodes: tuple[str, ...]
    """The verbs of nodes that Botpool can do without."""

    def refusal(self, namespace: str) -> BackendRefused | None:
        """Name all missing permissions at once."""
        if not self.missing:
            return None
        return BackendRefused(
            error_messages.SECTION,
            f"permissions are missing in the namespace {namespace}: {', '.join(self.missing)}. "
            "Add them to the Role of Botpool",
        )


async def review(connection: Connection, operation: Operation) -> Permissions:
    """Ask for every permission that Botpool uses, and for the optional ones to see nodes."""
    namespace = connection.access.namespace
    reviews = [_is_allowed(connection, operation, namespace, *each) for each in REQUIRED]
    reviews += [_is_allowed(connection, operation, None, "nodes", "", verb) for verb in ON_NODES]
    answers = await asyncio.gather(*reviews)
    allowed, on_nodes = answers[: len(REQUIRED)], answers[len(REQUIRED) :]
    missing = tuple(
        f"{verb} {resource}{'/' if part else ''}{part}"
        for (resource, part, verb), is_allowed in zip(REQUIRED, allowed, strict=True)
        if not is_allowed
    )
    missing_on_nodes = tuple(
        verb for verb, is_allowed in zip(ON_NODES, on_nodes, strict=True) if not is_allowed
    )
    return Permissions(missing=missing, missing_on_nodes=missing_on_nodes)


async def _is_allowed(
    connection: Connection,
    operation: Operation,
    namespace: str | None,
    resource: str,
    subresource: str,
    verb: str,
) -> bool:
    attributes = {"resource": resource, "subresource": subresource, "verb": verb}
    if namespace is not None:
        attributes["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    response = await connection.send(operation, Call(method="POST", path=_PATH, body=body))
    if not response.is_success:
        raise BackendUnavailable(f"check: the API server answered {response.status}")
    return bool(response.content["status"].get("allowed"))
