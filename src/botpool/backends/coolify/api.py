"""The typed calls of Coolify's API on behalf of one operation. One method sends one request."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from botpool.backends.coolify import error_messages, responses
from botpool.backends.coolify.connection import Ability, Call, Connection, Response, ServerError
from botpool.backends.coolify.operation import Operation
from botpool.backends.coolify.responses import Application, Deployment, StartResponse, Variable
from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId, DeploymentId

_VERSION = re.compile(r"v?\d[\w.+-]{0,39}")
_RECENT = "5"
"""How many deployments of an application are read: one start creates one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    connection: Connection
    operation: Operation

    def with_purpose(self, purpose: RequestPurpose) -> "Api":
        """Continue the same operation for another purpose."""
        return replace(self, operation=replace(self.operation, purpose=purpose))

    async def reserve(self, requests: int) -> None:
        """Take requests from the budget, all or none."""
        await self.connection.budget.take(self.operation.purpose, requests)

    async def reserve_more(self, requests: int) -> None:
        """Take unforeseen requests with the highest priority, so that the operation can finish."""
        await self.connection.budget.take(RequestPurpose.STOP, requests)

    async def list_tagged(self, tag: str) -> Sequence[Application]:
        content = self._content(await self._read("/applications", tag=tag))
        listed = responses.parse_list(content, "a list of applications")
        return list(map(responses.parse_application, listed))

    async def application(self, uuid: ContainerId) -> Application:
        response = await self._read(f"/applications/{_quoted(uuid)}")
        return responses.parse_application(self._content(response, application=uuid))

    async def create(self, fields: Mapping[str, Any], *, pool: str) -> ContainerId:
        path = "/applications/dockerimage"
        response = await self._write("POST", path, fields)
        self._require_accepted(response, pool, topic=path)
        return ContainerId(responses.parse_uuid(self._content(response), "a new application"))

    async def update(
        self, uuid: ContainerId, fields: Mapping[str, Any], *, pool: str = "<name>"
    ) -> None:
        response = await self._write("PATCH", f"/applications/{_quoted(uuid)}", fields)
        self._require_accepted(response, pool, topic=Ability.WRITE)
        self._content(response, application=uuid)

    async def delete(self, uuid: ContainerId) -> None:
        # Coolify's cleanup would also remove the image that the pool keeps on the disk.
        path, query = f"/applications/{_quoted(uuid)}", {"docker_cleanup": "false"}
        call = Call(method="DELETE", path=path, ability=Ability.WRITE, query=query)
        self._content(await self._send(call), application=uuid)

    async def variables(self, uuid: ContainerId) -> Sequence[Variable]:
        path = f"/applications/{_quoted(uuid)}/envs"
        call = Call(method="GET", path=path, ability=Ability.READ_SENSITIVE)
        content = self._content(await self._send(call), application=uuid)
        return self._parse_variables(responses.parse_list(content, "a list of variables"))

    async def write_variables(
        self, uuid: ContainerId, values: Mapping[str, str]
    ) -> Sequence[Variable]:
        """Write variables in this order. Returns none if an older version sends only a message."""
        content = await self._write_bulk(uuid, values)
        return self._parse_variables(content) if isinstance(content, list) else []

    async def write_variable(self, uuid: ContainerId, key: str, value: str) -> None:
        """Write one variable, even with a token that cannot read values."""
        await self._write_bulk(uuid, {key: value})

    async def _write_bulk(self, uuid: ContainerId, values: Mapping[str, str]) -> Any:
        flags = {"is_preview": False, "is_literal": True}
        flags |= {"is_multiline": False, "is_shown_once": False}
        data = [{"key": key, "value": value, **flags} for key, value in values.items()]
        path = f"/applications/{_quoted(uuid)}/envs/bulk"
        return self._content(await self._write("PATCH", path, {"data": data}), application=uuid)

    def _parse_variables(self, content: Sequence[Any]) -> Sequence[Variable]:
        if not all(map(responses.has_value, content)):
            raise self.connection.refuse(Ability.READ_SENSITIVE, error_messages.hidden_values())
        return list(map(responses.parse_variable, content))

    async def open_deployments(self) -> Sequence[Deployment]:
        """Return the open deployments of all applications, including foreign ones."""
        content = self._content(await self._read("/deployments"))
        listed = responses.parse_list(content, "a list of deployments")
        return [d for d in map(responses.parse_deployment, listed) if d.is_open]

    async def deployments_of(self, uuid: ContainerId) -> Sequence[Deployment]:
        """Return the last few deployments of an application, newest first."""
        response = await self._read(f"/deployments/applications/{_quoted(uuid)}", take=_RECENT)
        content = self._content(response, application=uuid)
        if isinstance(content, dict) and "deployments" in content:
            content = content["deployments"]
        listed = responses.parse_list(content, "a list of deployments")
        return list(map(responses.parse_deployment, listed))

    async def deployment(self, uuid: DeploymentId) -> Deployment | None:
        response = await self._read(f"/deployments/{_quoted(uuid)}")
        if response.status == 404 and _has_message(response, "deployment not found"):
            return None
        return responses.parse_deployment(self._content(response))

    async def start(self, uuid: ContainerId) -> StartResponse:
        response = await self._act(f"/applications/{_quoted(uuid)}/start", {})
        return responses.parse_start(self._content(response, application=uuid))

    async def stop(self, uuid: ContainerId) -> None:
        query = {"docker_cleanup": "false"}
        response = await self._act(f"/applications/{_quoted(uuid)}/stop", query)
        self._content(response, application=uuid)

    async def cancel(self, uuid: DeploymentId) -> None:
        """Request a cancel; the list of open deployments shows whether it worked.

        400 and 404 mean that the deployment has ended. Older versions answer 500 although the
        cancel worked.
        """
        path = f"/deployments/{_quoted(uuid)}/cancel"
        try:
            response = await self._send(Call(method="POST", path=path, ability=Ability.DEPLOY))
        except ServerError as error:
            if error.status != 500:
                raise
        else:
            if response.status not in (400, 404):
                self._content(response)

    async def logs(self, uuid: ContainerId, lines: int) -> str | None:
        """Return the last lines of the container's output, or None if it does not run."""
        response = await self._read(f"/applications/{_quoted(uuid)}/logs", lines=str(lines))
        if response.status == 400:
            return None
        content = self._content(response, application=uuid)
        text = content.get("logs") if isinstance(content, dict) else None
        if not isinstance(text, str | None):
            raise BackendUnavailable("Coolify's response has no logs")
        return text or ""

    async def version(self) -> str:
        call = Call(method="GET", path="/version", ability=Ability.READ, is_text=True)
        text = str(self._content(await self._send(call))).strip()
        if not _VERSION.fullmatch(text):
            raise BackendUnavailable("the server at backends.coolify.url is not Coolify")
        return text

    async def require_exists(self, path: str) -> Any:
        """Check that a server or an environment exists, if this version of Coolify can tell."""
        response = await self._read(path)
        if response.status == 404 and (
            refusal := error_messages.setting_not_found(response.message)
        ):
            raise refusal
        return self._content(response) if response.status not in (404, 422) else None

    async def _read(self, path: str, **query: str) -> Response:
        return await self._send(Call(method="GET", path=path, ability=Ability.READ, query=query))

    async def _write(self, method: str, path: str, body: Any) -> Response:
        return await self._send(Call(method=method, path=path, ability=Ability.WRITE, body=body))

    async def _act(self, path: str, query: Mapping[str, str]) -> Response:
        """Send POST, or GET to versions that accept only GET; remember the method that works."""

        def call() -> Call:
            method = "GET" if self.connection.acts_by_get else "POST"
            return Call(method=method, path=path, ability=Ability.DEPLOY, query=query)

        response = await self._send(call())
        if response.status == 405:
            await self.reserve_more(1)
            self.connection.acts_by_get = not self.connection.acts_by_get
            response = await self._send(call())
        return response

    async def _send(self, call: Call) -> Response:
        return await self.connection.send(self.operation, call)

    def _require_accepted(self, response: Response, pool: str, *, topic: Hashable) -> None:
        if refusal := error_messages.write_rejected(response.status, response.content, pool=pool):
            raise self.connection.refuse(topic, refusal)
        if response.is_success:
            self.connection.accepted(topic)

    def _content(self, response: Response, *, application: ContainerId | None = None) -> Any:
        """Return the content of a success. Only Coolify's own 404 means ContainerGone."""
        if response.is_success:
            return response.content
        is_gone = response.status == 404 and _has_message(response, "application not found")
        if application is not None and is_gone:
            raise ContainerGone(application)
        answer = f"{response.status}: {response.message[:200]}"
        raise BackendUnavailable(f"{self.operation.name}: Coolify answered {answer}")


def _has_message(response: Response, message: str) -> bool:
    return response.message.rstrip(".").lower() == message


def _quoted(uuid: str) -> str:
    return quote(uuid, safe="")
