"""The typed calls of Coolify's API on behalf of one operation. One method sends one request."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from botpool.backends.coolify import error_messages
from botpool.backends.coolify.connection import Ability, Call, Connection, Response, ServerError
from botpool.backends.coolify.operation import Operation
from botpool.backends.coolify.responses import (
    Application,
    CreatedApplication,
    Deployment,
    Logs,
    StartResponse,
    Variable,
    parse,
    parse_list,
)
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
        return parse_list(Application, self._content(await self._read("/applications", tag=tag)))

    async def list_all(self) -> Sequence[Application]:
        """List the applications of every owner."""
        return parse_list(Application, self._content(await self._read("/applications")))

    async def add_tag(self, uuid: ContainerId, tag: str) -> None:
        """Add a tag; one that the application has already is no error."""
        path = f"/applications/{_quoted(uuid)}/tags"
        self._content(await self._write("POST", path, {"tag_name": tag}), application=uuid)

    async def application(self, uuid: ContainerId) -> Application:
        response = await self._read(f"/applications/{_quoted(uuid)}")
        return parse(Application, self._content(response, application=uuid))

    async def create(self, fields: Mapping[str, Any], *, pool: str) -> ContainerId:
        path = "/applications/dockerimage"
        response = await self._write("POST", path, fields)
        self._require_accepted(response, pool, topic=path)
        return parse(CreatedApplication, self._content(response)).uuid

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
        return self._parse_variables(self._content(await self._send(call), application=uuid))

    async def write_variables(
        self, uuid: ContainerId, values: Mapping[str, str]
    ) -> Sequence[Variable]:
        """Write variables in this order, and return those that were written."""
        return self._parse_variables(await self._write_bulk(uuid, values))

    async def write_variable(self, uuid: ContainerId, key: str, value: str) -> None:
        """Write one variable, even with a token that cannot read values."""
        await self._write_bulk(uuid, {key: value})

    async def delete_variable(self, uuid: ContainerId, variable_uuid: str) -> None:
        """Delete a variable. A variable that is already gone is no error."""
        path = f"/applications/{_quoted(uuid)}/envs/{_quoted(variable_uuid)}"
        call = Call(method="DELETE", path=path, ability=Ability.WRITE)
        response = await self._send(call)
        if response.status != 404 or _has_message(response, "application not found"):
            self._content(response, application=uuid)

    async def _write_bulk(self, uuid: ContainerId, values: Mapping[str, str]) -> Any:
        flags = {"is_preview": False, "is_literal": True}
        flags |= {"is_multiline": False, "is_shown_once": False}
        data = [{"key": key, "value": value, **flags} for key, value in values.items()]
        path = f"/applications/{_quoted(uuid)}/envs/bulk"
        return self._content(await self._write("PATCH", path, {"data": data}), application=uuid)

    def _parse_variables(self, content: Any) -> Sequence[Variable]:
        variables = parse_list(Variable, content)
        if any(variable.is_hidden for variable in variables):
            raise self.connection.refuse(Ability.READ_SENSITIVE, error_messages.hidden_values())
        return variables

    async def open_deployments(self) -> Sequence[Deployment]:
        """Return the open deployments of all applications, including foreign ones."""
        listed = parse_list(Deployment, self._content(await self._read("/deployments")))
        return [deployment for deployment in listed if deployment.is_open]

    async def deployments_of(self, uuid: ContainerId) -> Sequence[Deployment]:
        """Return the last few deployments of an application, newest first."""
        response = await self._read(f"/deployments/applications/{_quoted(uuid)}", take=_RECENT)
        content = self._content(response, application=uuid)
        return parse_list(
            Deployment, content.get("deployments") if isinstance(content, dict) else None
        )

    async def deployment(self, uuid: DeploymentId) -> Deployment | None:
        response = await self._read(f"/deployments/{_quoted(uuid)}")
        if response.status == 404 and _has_message(response, "deployment not found"):
            return None
        return parse(Deployment, self._content(response))

    async def start(self, uuid: ContainerId) -> StartResponse:
        response = await self._deploy(f"/applications/{_quoted(uuid)}/start")
        return parse(StartResponse, self._content(response, application=uuid))

    async def stop(self, uuid: ContainerId) -> None:
        path = f"/applications/{_quoted(uuid)}/stop"
        response = await self._deploy(path, docker_cleanup="false")
        self._content(response, application=uuid)

    async def cancel(self, uuid: DeploymentId) -> None:
        """Request a cancel; the list of open deployments shows whether it worked.

        400 and 404 mean that the deployment has ended. Older versions answer 500 although the
        cancel worked.
        """
        try:
            response = await self._deploy(f"/deployments/{_quoted(uuid)}/cancel")
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
        return parse(Logs, self._content(response, application=uuid)).logs or ""

    async def version(self) -> str:
        call = Call(method="GET", path="/version", ability=Ability.READ, is_text=True)
        response = await self._send(call)
        if response.status == 404:
            raise error_messages.wrong_address()
        text = str(self._content(response)).strip()
        if not _VERSION.fullmatch(text):
            raise BackendUnavailable("the server at backends.coolify.url is not Coolify")
        return text

    async def require_exists(self, *path: str) -> Any:
        """Check that a server or an environment exists, if this version of Coolify can tell."""
        response = await self._read("".join(f"/{_quoted(part)}" for part in path))
        if response.status == 404 and (
            refusal := error_messages.setting_not_found(response.message)
        ):
            raise refusal
        return self._content(response) if response.status not in (404, 422) else None

    async def _read(self, path: str, **query: str) -> Response:
        return await self._send(Call(method="GET", path=path, ability=Ability.READ, query=query))

    async def _write(self, method: str, path: str, body: Any) -> Response:
        return await self._send(Call(method=method, path=path, ability=Ability.WRITE, body=body))

    async def _deploy(self, path: str, **query: str) -> Response:
        call = Call(method="POST", path=path, ability=Ability.DEPLOY, query=query)
        return await self._send(call)

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
