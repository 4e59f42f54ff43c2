"""What we ask of a daemon and tell it, on behalf of one call of the backend.

One method is one request. The end of the call is looked at before each: a process that was frozen
in the middle sends nothing more when it wakes up after its lease has gone to another.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import aiodocker
import aiohttp
from aiodocker import DockerError

from botpool.backends.docker import places, refusals, vacancy
from botpool.backends.docker.config import DockerConfig
from botpool.backends.docker.connection import Connection
from botpool.backends.docker.places import Container, Draft, Kind, Place
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId

T = TypeVar("T")
_MIB = 1024 * 1024
_WAIT_S = 0.01
"""Before what another one is just doing is read again."""


class Crossed(Exception):
    """Somebody else changed it meanwhile, or is just doing so: read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    connection: Connection
    config: DockerConfig
    call: str
    ends_at: float

    def remaining_s(self) -> float:
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise BackendUnavailable(f"{self.call} did not end in time")
        return remaining

    async def let_others_end(self, container_id: ContainerId) -> None:
        """Wait for what is under way there, and bring to an end what was given up on the way."""
        await asyncio.sleep(_WAIT_S)
        await self.end_removals(container_id)

    async def end_removals(self, container_id: ContainerId) -> None:
        """Remove again what is being removed there.

        Docker shows a removal that failed halfway as if it went on, and its name stays taken until
        somebody asks again. Of one that does go on it says so.
        """
        slot = places.slot_of(self.config.installation_id, container_id)
        if slot is None:
            return
        for each in await self._listed(slot, status=[places.BEING_REMOVED]):
            with suppress(Crossed):
                await self._act(each.delete(v=True))

    async def places(self, slot: str | None = None) -> Mapping[ContainerId, Place]:
        """What stands there for our slots, or for one of them."""
        found: dict[ContainerId, list[Container]] = {}
        for each in await self._listed(slot):
            container = places.read({key: each[key] for key in places.LISTED})
            if container is not None:
                place_id = places.place_id(self.config.installation_id, container.spec.name)
                found.setdefault(place_id, []).append(container)
        return {place_id: places.place_of(place_id, each) for place_id, each in found.items()}

    async def place(self, container_id: ContainerId) -> Place:
        """As it is this moment. ContainerGone if nothing stands there, or it cannot be ours.

        Docker's list follows an end, and the event that tells it, only after some milliseconds:
        what it shows running is asked for once more.
        """
        slot = places.slot_of(self.config.installation_id, container_id)
        listed = (await self.places(slot)).get(container_id) if slot is not None else None
        found = []
        for each in listed.containers if listed else ():
            if each.is_up:
                try:
                    each = replace(each, state=(await self.details(each))["Status"])
                except Crossed:
                    continue
            found.append(each)
        if not found:
            raise ContainerGone(container_id)
        return places.place_of(container_id, found)

    async def details(self, container: Container) -> Mapping[str, Any]:
        """All that Docker tells of its state. Crossed if it is no more."""
        try:
            shown = await self._ask(self._container(container).show())
        except DockerError as error:
            raise _crossed_or_unavailable(error) from error
        state: Mapping[str, Any] = shown["State"]
        return state

    async def create(
        self, draft: Draft, *, name: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Crossed if the name is taken, or the image is not there any more."""
        try:
            await self._ask(
                self._client.containers.create(self._body(draft, environment or {}), name=name)
            )
        except DockerError as error:
            if error.status == 404 and "no such image" in error.message.lower():
                if draft.kind is not Kind.BOT:
                    await self._give_empty_image()
                raise Crossed from error
            if error.status == 409:
                raise Crossed from error
            raise refusals.not_made(error, draft.spec) from error

    async def _give_empty_image(self) -> None:
        try:
            await self._ask(vacancy.load(self._client))
        except DockerError as error:
            raise refusals.no_space(error.message) or refusals.unavailable(error) from error

    async def rename(self, container: Container, name: str) -> None:
        """Crossed if somebody has the name, be it this one already (400), or removes this one.

        Docker may be about to write down the new name when the folder goes (500).
        """
        try:
            await self._ask(self._container(container).rename(name))
        except DockerError as error:
            if error.status == 400:
                raise Crossed from error
            if error.status == 500 and (await self.details(container))["Dead"]:
                raise Crossed from error
            raise _crossed_or_unavailable(error) from error

    async def start(self, container: Container) -> None:
        try:
            await self._ask(self._container(container).start())
        except DockerError as error:
            if error.status == 409 or _is_no_container(error):
                raise Crossed from error
            raise refusals.not_made(error, container.spec) from error

    async def stop(self, container: Container) -> None:
        """Ask it to end, and kill it if it does not within the grace."""
        grace_s = min(self.config.stop_grace_s, int(self.remaining_s() / 2))
        await self._act(self._container(container).stop(t=grace_s))

    async def remove(self, container: Container, *, force: bool = False) -> None:
        """Crossed if it runs, or is gone or going.

        A rename that it crosses may put a file back into the folder that Docker is emptying: what
        it could not remove is removed once more.
        """
        found = self._container(container)
        try:
            await self._ask(found.delete(force=force, v=True))
        except DockerError as error:
            if error.status != 500:
                raise _crossed_or_unavailable(error) from error
            await self._act(found.delete(force=force, v=True))

    async def has_image(self, image: str) -> bool:
        try:
            await self._ask(self._client.images.inspect(image))
        except DockerError as error:
            if error.status == 404:
                return False
            if error.status == 400:
                return False  # Not a name: the pull says so in words.
            raise refusals.unavailable(error) from error
        return True

    async def version(self) -> str:
        try:
            return str((await self._ask(self._client.version()))["Version"])
        except DockerError as error:
            raise refusals.unavailable(error) from error

    async def networks(self) -> Sequence[str]:
        try:
            found = await self._ask(self._client.networks.list())
        except DockerError as error:
            raise refusals.unavailable(error) from error
        return [name for each in found for name in (each["Name"], each["Id"])]

    @property
    def _client(self) -> aiodocker.Docker:
        return self.connection.client()

    async def _listed(
        self, slot: str | None, **filters: Sequence[str]
    ) -> Sequence[aiodocker.docker.DockerContainer]:
        labels = [f"{places.INSTALLATION}={self.config.installation_id}"]
        labels.append(places.SLOT if slot is None else f"{places.SLOT}={slot}")
        wanted = json.dumps({"label": labels, **filters})
        try:
            return await self._ask(self._client.containers.list(all=True, filters=wanted))
        except DockerError as error:
            raise refusals.unavailable(error) from error

    def _container(self, container: Container) -> aiodocker.docker.DockerContainer:
        return self._client.containers.container(container.docker_id)

    async def _act(self, request: Awaitable[T]) -> T:
        """A request about a container that another may be busy with."""
        try:
            return await self._ask(request)
        except DockerError as error:
            raise _crossed_or_unavailable(error) from error

    async def _ask(self, request: Awaitable[T]) -> T:
        """DockerError for Docker's own complaints; an answer that breaks off is no evidence."""
        try:
            async with asyncio.timeout(self.remaining_s()):
                return await request
        except TimeoutError:
            raise  # An OSError too, and for the caller to tell.
        except (aiohttp.ClientError, OSError) as error:
            raise BackendUnavailable(f"{self.call}: {error}") from error

    def _body(self, draft: Draft, environment: Mapping[str, str]) -> dict[str, Any]:
        body: dict[str, Any] = {"Labels": dict(draft.labels(self.config.installation_id))}
        if draft.kind is not Kind.BOT:
            return body | {"Image": vacancy.IMAGE, "Cmd": [draft.kind]}
        return body | {
            "Image": draft.spec.image,
            "Env": [f"{key}={value}" for key, value in environment.items()],
            "HostConfig": self._limits(draft.spec),
        }

    def _limits(self, spec: ContainerSpec) -> dict[str, Any]:
        return {
            "NanoCpus": round(spec.cpus * 1_000_000_000),
            "Memory": spec.memory_mb * _MIB,
            # The same: no swap, in which a browser would crawl instead of failing.
            "MemorySwap": spec.memory_mb * _MIB,
            "PidsLimit": self.config.pids_limit,
            "ShmSize": self.config.shm_mb * _MIB,
            "NetworkMode": self.config.network,
            "RestartPolicy": {"Name": "no"},
        }


def _is_no_container(error: DockerError) -> bool:
    return error.status == 404 and "no such container" in error.message.lower()


def _crossed_or_unavailable(error: DockerError) -> Exception:
    if error.status in (404, 409):
        return Crossed()
    return refusals.unavailable(error)
