"""Lists Pods in pages of one snapshot, without a resourceVersion: the newest state."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from botpool.backends.kubernetes import error_messages, names
from botpool.backends.kubernetes.connection import Call, Connection, Operation
from botpool.backends.kubernetes.pod_state import Pod
from botpool.domain.errors import BackendUnavailable

PAGE = 500
_MAX_LISTS = 4
"""How often a list whose pages expire is started again."""
_METADATA = (
    "name",
    "uid",
    "labels",
    "finalizers",
    "creationTimestamp",
    "deletionTimestamp",
)
_SPEC = ("nodeName", "schedulingGates", "terminationGracePeriodSeconds")


class Expired(Exception):
    """The snapshot of a list expired between two pages; its remainder would be of another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    pods: Sequence[Pod]
    version: str


async def pages(
    connection: Connection, operation: Operation, selector: str, *, size: int = PAGE
) -> AsyncGenerator[Page, None]:
    """Yield the pages of one list. Raises Expired."""
    query = {"labelSelector": selector, "limit": str(size)}
    token = ""
    while True:
        page = query | ({"continue": token} if token else {})
        call = Call(method="GET", path=connection.pods_path, query=page)
        response = await connection.send(operation, call)
        if response.status == 410:
            raise Expired
        if not response.is_success:
            message = error_messages.message_of(response.content)
            raise BackendUnavailable(
                f"{operation.name}: the API server answered {response.status}: {message}"
            )
        metadata = response.content["metadata"]
        yield Page(
            pods=[_without_unused_fields(pod) for pod in response.content["items"]],
            version=metadata.get("resourceVersion", ""),
        )
        token = metadata.get("continue") or ""
        if not token:
            return


async def list_pods(
    connection: Connection, operation: Operation, selector: str
) -> tuple[str, list[Pod]]:
    """Return the version of the list, and all its Pods."""
    for _ in range(_MAX_LISTS):
        version, pods = "", list[Pod]()
        try:
            async with aclosing(pages(connection, operation, selector)) as received:
                async for page in received:
                    version = page.version
                    pods += page.pods
        except Expired:
            continue
        return version, pods
    raise BackendUnavailable(f"{operation.name}: the pages of the list expire too early")


def _without_unused_fields(pod: Mapping[str, Any]) -> Pod:
    """Return the parts of a Pod that decisions use: thousands of Pods are in memory at once."""
    metadata, spec = pod["metadata"], pod["spec"]
    kept = {key: spec[key] for key in _SPEC if key in spec}
    kept["containers"] = [
        {key: container[key] for key in ("name", "resources") if key in container}
        for container in spec["containers"]
    ]
    return {
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": kept,
        "status": pod["status"],
    }


def grouped_by_slot(pods: Collection[Pod]) -> Mapping[str, list[Pod]]:
    """Return the Pods by the value of their slot's label."""
    by_slot: dict[str, list[Pod]] = {}
    for pod in pods:
        label = (pod["metadata"].get("labels") or {}).get(names.SLOT_LABEL, "")
        by_slot.setdefault(label, []).append(pod)
    return by_slot
