"""Coolify's calls, typed, on behalf of one errand. One method is one request."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from botpool.backends.coolify import answers, refusals
from botpool.backends.coolify.answers import Application, Deployment, Started, Variable
from botpool.backends.coolify.connection import Ability, Answer, Call, Connection, ServerFault
from botpool.backends.coolify.errand import Errand
from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId, DeploymentId

_VERSION = re.compile(r"v?\d[\w.+-]{0,39}")
_RECENT = "5"
"""How many deployments of an application are looked at: one start makes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    connection: Connection
    errand: Errand

    def serving(self, purpose: RequestPurpose) -> "Api":
        """The same errand, from here on for another purpose."""
        return Api(connection=self.connection, errand=replace(self.errand, purpose=purpose))

    async def pay(self, requests: int) -> None:
        """Take so many requests from the budget, or none."""
        await self.connection.budget.take(self.errand.purpose, requests)

    async def pay_more(self, requests: int) -> None:
        """Take requests that were not foreseen. What has begun is finished before others begin."""
        await self.connection.budget.take(RequestPurpose.STOP, requests)

    async def list_tagged(self, tag: str) -> Sequence[Application]:
        answer = await self._read("/applications", tag=tag)
        content = answers.sequence(self._done(answer), "a list of applications")
        return [answers.application(item) for item in content]

    async def application(self, uuid: ContainerId) -> Application:
        answer = await self._read(f"/applications/{_quoted(uuid)}")
        return answers.application(self._done(answer, of=uuid))

    async def create(self, fields: Mapping[str, Any], *, pool: str) -> ContainerId:
        path = "/applications/dockerimage"
        answer = await self._write("POST", path, fields)
        self._require_accepted(answer, pool, topic=path)
        return ContainerId(answers.text(self._done(answer), "uuid", "a new application"))

    async def update(
        self, uuid: ContainerId, fields: Mapping[str, Any], *, pool: str = "<name>"
    ) -> None:
        answer = await self._write("PATCH", f"/applications/{_quoted(uuid)}", fields)
        self._require_accepted(answer, pool, topic=Ability.WRITE)
        self._done(answer, of=uuid)

    async def delete(self, uuid: ContainerId) -> None:
        # With its cleanup Coolify would also remove the image that the pool keeps on the disk.
        path, query = f"/applications/{_quoted(uuid)}", {"docker_cleanup": "false"}
        call = Call(method="DELETE", path=path, ability=Ability.WRITE, query=query)
        self._done(await self._send(call), of=uuid)

    async def variables(self, uuid: ContainerId) -> Sequence[Variable]:
        path = f"/applications/{_quoted(uuid)}/envs"
        call = Call(method="GET", path=path, ability=Ability.READ_SENSITIVE)
        content = self._done(await self._send(call), of=uuid)
        return self._shown(answers.sequence(content, "a list of variables"))

    async def write_variables(
        self, uuid: ContainerId, values: Mapping[str, str]
    ) -> Sequence[Variable]:
        """Write them in this order. Older versions answer with a message only: then nothing."""
        content = await self._write_in_bulk(uuid, values)
        return self._shown(content) if isinstance(content, list) else []

    async def note(self, uuid: ContainerId, key: str, value: str) -> None:
        """Write one, whether or not this token may see values."""
        await self._write_in_bulk(uuid, {key: value})

    async def _write_in_bulk(self, uuid: ContainerId, values: Mapping[str, str]) -> Any:
        flags = {"is_preview": False, "is_literal": True}
        flags |= {"is_multiline": False, "is_shown_once": False}
        data = [{"key": key, "value": value, **flags} for key, value in values.items()]
        path = f"/applications/{_quoted(uuid)}/envs/bulk"
        return self._done(await self._write("PATCH", path, {"data": data}), of=uuid)

    def _shown(self, content: Sequence[Any]) -> Sequence[Variable]:
        """Variables with their values, which only some tokens may see."""
        if not all(map(answers.shows_value, content)):
            raise self.connection.refuse(Ability.READ_SENSITIVE, refusals.hidden_values())
        return [answers.variable(item) for item in content]

    async def deployments_under_way(self) -> Sequence[Deployment]:
        """Of all applications, those of others among them."""
        content = self._done(await self._read("/deployments"))
        found = map(answers.deployment, answers.sequence(content, "a list of deployments"))
        return [deployment for deployment in found if deployment.is_under_way]

    async def deployments_of(self, uuid: ContainerId) -> Sequence[Deployment]:
        """The last few of an application, the newest first."""
        answer = await self._read(f"/deployments/applications/{_quoted(uuid)}", take=_RECENT)
        content = self._done(answer, of=uuid)
        if isinstance(content, dict) and "deployments" in content:
            content = content["deployments"]
        return list(map(answers.deployment, answers.sequence(content, "a list of deployments")))

    async def deployment(self, uuid: DeploymentId) -> Deployment | None:
        answer = await self._read(f"/deployments/{_quoted(uuid)}")
        if answer.status == 404 and _says(answer, "deployment not found"):
            return None
        return answers.deployment(self._done(answer))

    async def start(self, uuid: ContainerId) -> Started:
        answer = await self._act(f"/applications/{_quoted(uuid)}/start", {})
        return answers.started(self._done(answer, of=uuid))

    async def stop(self, uuid: ContainerId) -> None:
        query = {"docker_cleanup": "false"}
        self._done(await self._act(f"/applications/{_quoted(uuid)}/stop", query), of=uuid)

    async def cancel(self, uuid: DeploymentId) -> None:
        """Ask for it; whether it helped shows in the list of what is under way.

        400 and 404: it is over. Older versions answer 500 though it worked.
        """
        path = f"/deployments/{_quoted(uuid)}/cancel"
        try:
            answer = await self._send(Call(method="POST", path=path, ability=Ability.DEPLOY))
        except ServerFault as error:
            if error.status != 500:
                raise
        else:
            if answer.status not in (400, 404):
                self._done(answer)

    async def logs(self, uuid: ContainerId, lines: int) -> str | None:
        """The last lines of the container's output; None when it does not run."""
        answer = await self._read(f"/applications/{_quoted(uuid)}/logs", lines=str(lines))
        if answer.status == 400:
            return None
        content = self._done(answer, of=uuid)
        text = content.get("logs") if isinstance(content, dict) else None
        if not isinstance(text, str | None):
            raise BackendUnavailable("Coolify's answer has no logs")
        return text or ""

    async def version(self) -> str:
        call = Call(method="GET", path="/version", ability=Ability.READ, is_text=True)
        text = str(self._done(await self._send(call))).strip()
        if not _VERSION.fullmatch(text):
            raise BackendUnavailable("what answers for Coolify's version is not Coolify")
        return text

    async def require_place(self, path: str) -> Any:
        """See that a server or an environment exists. What this version cannot tell is no fault."""
        answer = await self._read(path)
        if answer.status == 404 and (refusal := refusals.place_not_found(answer.message)):
            raise refusal
        return self._done(answer) if answer.status not in (404, 422) else None

    async def _read(self, path: str, **query: str) -> Answer:
        return await self._send(Call(method="GET", path=path, ability=Ability.READ, query=query))

    async def _write(self, method: str, path: str, body: Any) -> Answer:
        return await self._send(Call(method=method, path=path, ability=Ability.WRITE, body=body))

    async def _act(self, path: str, query: Mapping[str, str]) -> Answer:
        """POST, or GET where only that is known; what worked is tried first the next time."""

        def call() -> Call:
            method = "GET" if self.connection.acts_by_get else "POST"
            return Call(method=method, path=path, ability=Ability.DEPLOY, query=query)

        answer = await self._send(call())
        if answer.status == 405:
            await self.pay_more(1)
            self.connection.acts_by_get = not self.connection.acts_by_get
            answer = await self._send(call())
        return answer

    async def _send(self, call: Call) -> Answer:
        return await self.connection.send(self.errand, call)

    def _require_accepted(self, answer: Answer, pool: str, *, topic: Hashable) -> None:
        if refusal := refusals.not_made(answer.status, answer.content, pool=pool):
            raise self.connection.refuse(topic, refusal)
        if answer.is_success:
            self.connection.accepted(topic)

    def _done(self, answer: Answer, *, of: ContainerId | None = None) -> Any:
        """The content of a success. Only Coolify's own word makes an application gone."""
        if answer.is_success:
            return answer.content
        if of is not None and answer.status == 404 and _says(answer, "application not found"):
            raise ContainerGone(of)
        said = f"{answer.status}: {answer.message[:200]}"
        raise BackendUnavailable(f"{self.errand.name}: Coolify answered {said}")


def _says(answer: Answer, words: str) -> bool:
    return answer.message.rstrip(".").lower() == words


def _quoted(uuid: str) -> str:
    return quote(uuid, safe="")
