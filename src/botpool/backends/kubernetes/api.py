"""The requests of one operation. One method sends one request, except the pages of a list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.backends.kubernetes import error_messages, names, pod_list
from botpool.backends.kubernetes.connection import MERGE_PATCH, Call, Connection, Operation
from botpool.backends.kubernetes.pod_state import Node, Pod, parse_node
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, BackendUnavailable
from botpool.domain.ids import DeploymentId

_NODES_PAGE = 500


class Replaced(Exception):
    """The Pod of this name is gone, or has another uid: the call is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    connection: Connection
    operation: Operation
    installation_id: str

    async def list_pods(self, *slots: str) -> Sequence[Pod]:
        """List our Pods, or those of some slots."""
        selector = names.selector(self.installation_id, *slots)
        _, pods = await pod_list.list_pods(self.connection, self.operation, selector)
        return pods

    async def read_pod(self, name: str) -> Pod | None:
        """Read a Pod; None if there is none of this name. It may belong to others."""
        call = Call(method="GET", path=self._path(name))
        response = await self.connection.send(self.operation, call)
        if response.status == 404:
            return None
        pod: Pod = self._require_success(response.status, response.content)
        return pod

    def is_ours(self, pod: Pod) -> bool:
        label = (pod["metadata"].get("labels") or {}).get(names.INSTALLATION_LABEL)
        return label == names.label_value(self.installation_id)

    async def create_pod(self, pod: Mapping[str, Any], spec: ContainerSpec) -> Pod | None:
        """Create a Pod; None if its name is taken."""
        call = Call(method="POST", path=self.connection.pods_path, body=pod)
        response = await self.connection.send(self.operation, call)
        topic = ("pods of", spec.pool_name)
        if response.status == 409:
            return None
        if not response.is_success:
            refusal = error_messages.create_refused(response.status, response.content, spec)
            if isinstance(refusal, BackendRefused):
                self.connection.refuse(topic, refusal)
            raise refusal
        self.connection.accepted(topic)
        created: Pod = response.content
        return created

    async def patch_pod(self, name: str, uid: DeploymentId, patch: Mapping[str, Any]) -> Pod:
        """Change a Pod, if it still has this uid. Raises Replaced."""
        metadata = {**patch.get("metadata", {}), "uid": uid}
        call = Call(
            method="PATCH",
            path=self._path(name),
            body={**patch, "metadata": metadata},
            content_type=MERGE_PATCH,
        )
        response = await self.connection.send(self.operation, call)
        if response.status == 404:
            raise Replaced
        if response.status == 422 and error_messages.has_wrong_uid(response.content):
            raise Replaced
        patched: Pod = self._require_success(response.status, response.content)
        return patched

    async def delete_pod(
        self, name: str, uid: DeploymentId, *, grace_s: int | None = None
    ) -> Pod | None:
        """Begin the deletion of a Pod with this uid; None if there is none. Raises Replaced.

        The answer shows the Pod after the call. A grace of 0 is never sent: it would remove the
        object while the container runs.
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = max(1, grace_s)
        call = Call(method="DELETE", path=self._path(name), body=options)
        response = await self.connection.send(self.operation, call)
        if response.status == 404:
            return None
        if response.status == 409:
            raise Replaced
        deleted: Mapping[str, Any] = self._require_success(response.status, response.content)
        return deleted if deleted.get("kind") == "Pod" else None

    async def read_node(self, name: str) -> Node | None:
        """Read a node; None if Botpool may not read nodes."""
        call = Call(method="GET", path=f"/api/v1/nodes/{name}", is_optional=True)
        try:
            response = await self.connection.send(self.operation, call)
        except BackendRefused:
            return None
        if response.status == 404:
            return Node(name=name, exists=False)
        return parse_node(self._require_success(response.status, response.content))

    async def list_nodes(self) -> Sequence[Mapping[str, Any]]:
        """List the nodes of the cluster, in pages; none if Botpool may not list nodes."""
        nodes: list[Mapping[str, Any]] = []
        query = {"limit": str(_NODES_PAGE)}
        while True:
            call = Call(method="GET", path="/api/v1/nodes", query=query, is_optional=True)
            try:
                response = await self.connection.send(self.operation, call)
            except BackendRefused:
                return []
            content = self._require_success(response.status, response.content)
            nodes += content["items"]
            token = content["metadata"].get("continue") or ""
            if not token:
                return nodes
            query = {"limit": str(_NODES_PAGE), "continue": token}

    def _path(self, name: str) -> str:
        return f"{self.connection.pods_path}/{name}"

    def _require_success(self, status: int, content: Any) -> Any:
        if 200 <= status < 300:
            return content
        message = error_messages.message_of(content)
        raise BackendUnavailable(
            f"{self.operation.name}: the API server answered {status}: {message}"
        )
