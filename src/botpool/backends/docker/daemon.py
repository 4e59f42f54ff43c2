"""Requests to a Docker daemon on behalf of one call of the backend.

One method sends one request. Each request first checks the call's deadline: a process that was
frozen sends nothing after its lease has passed to another replica.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote

import aiodocker
import aiohttp
from aiodocker import DockerError
from yarl import URL

from botpool.backends.docker import error_messages, placeholder_image, pool_network
from botpool.backends.docker.config import DockerConfig
from botpool.backends.docker.connection import Connection
from botpool.backends.docker.create_body import create_body
from botpool.backends.docker.slot_containers import (
    INSTALLATION_LABEL,
    LISTED_FIELDS,
    REMOVING,
    SLOT_LABEL,
    Container,
    ContainerDraft,
    ContainerKind,
    SlotContainers,
    container_id_of,
    ordered,
    parse_container,
    slot_of,
)
from botpool.backends.protocol import StartRequest, StopMode
from botpool.domain.errors import BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId

T = TypeVar("T")
_FIRST_WAIT_S, _MAX_WAIT_S = 0.01, 0.5
"""The pauses before a container that another call is changing is read again. They grow, because a
busy daemon may need many seconds to create or remove a container."""
_WAIT_FOR_END_S = 1.0
"""How long a stop waits for the end of a container that got a signal."""


class ConcurrentChange(Exception):
    """Another call has changed the container or is changing it: read the slot again."""


class ImageMissing(Exception):
    """The daemon does not have the image of a bot's container."""


def _growing_waits() -> Iterator[float]:
    return (min(_FIRST_WAIT_S * 2**number, _MAX_WAIT_S) for number in itertools.count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    connection: Connection
    config: DockerConfig
    call: str
    ends_at: float
    waits: Iterator[float] = field(default_factory=_growing_waits)

    def remaining_s(self) -> float:
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise BackendUnavailable(f"{self.call} did not end in time")
        return remaining

    async def wait_for_others(self, container_id: ContainerId) -> None:
        """Wait briefly for concurrent calls, and finish removals that were interrupted."""
        await asyncio.sleep(next(self.waits))
        await self.finish_removals(container_id)

    async def finish_removals(self, container_id: ContainerId) -> None:
        """Repeat the removal of containers in the state `removing`.

        Docker also shows a failed removal in this state, and the name stays taken until the
        removal is repeated. Docker rejects the repetition of a removal that is in progress.
        """
        slot = slot_of(self.config.installation_id, container_id)
        if slot is None:
            return
        for container in await self._list(slot, status=[REMOVING]):
            with suppress(ConcurrentChange):
                await self._change(container.delete(v=True))

    async def list_slots(self, slot: str | None = None) -> Mapping[ContainerId, SlotContainers]:
        """Return the containers of all our slots, or of one slot."""
        found: dict[ContainerId, list[Container]] = {}
        for listed in await self._list(slot):
            container = parse_container({field: listed[field] for field in LISTED_FIELDS})
            if container is not None:
                container_id = container_id_of(self.config.installation_id, container.spec.name)
                found.setdefault(container_id, []).append(container)
        return {container_id: ordered(container_id, each) for container_id, each in found.items()}

    async def read_slot(self, container_id: ContainerId) -> SlotContainers:
        """Return the current containers of a slot. Raises ContainerGone if there are none.

        Docker's list lags a few milliseconds behind the end of a container, so each container
        that the list shows as running is inspected.
        """
        slot = slot_of(self.config.installation_id, container_id)
        listed = (await self.list_slots(slot)).get(container_id) if slot is not None else None
        found = []
        for container in listed.containers if listed else ():
            if container.is_running:
                try:
                    state = (await self.container_state(container))["Status"]
                except ConcurrentChange:
                    continue
                container = replace(container, state=state)
            found.append(container)
        if not found:
            raise ContainerGone(container_id)
        return ordered(container_id, found)

    async def container_state(self, container: Container) -> Mapping[str, Any]:
        """Return Docker's `State` object. Raises ConcurrentChange if the container is gone."""
        inspected = await self._change(self._docker_container(container).show())
        state: Mapping[str, Any] = inspected["State"]
        return state

    async def create(
        self, draft: ContainerDraft, *, name: str, request: StartRequest | None = None
    ) -> str:
        """Create a container and return Docker's id of it.

        Raises ConcurrentChange if the name is taken, and ImageMissing for a bot's container
        without its image.
        """
        is_bot = draft.kind is ContainerKind.BOT
        network = await self.network_of(draft.spec.pool_name) if is_bot else None
        body = create_body(draft, request, self.config, network)
        try:
            created = await self._send(self._client.containers.create(body, name=name))
        except DockerError as error:
            if is_bot and error_messages.is_missing_image(error):
                raise ImageMissing from error
            if error_messages.is_missing_image(error):
                await self._load_placeholder_image()
                raise ConcurrentChange from error
            if error.status == 409:
                raise ConcurrentChange from error
            raise error_messages.create_or_start_failed(error, draft.spec) from error
        return str(created.id)

    async def _load_placeholder_image(self) -> None:
        try:
            await self._send(placeholder_image.load(self._client))
        except DockerError as error:
            failure = error_messages.disk_full(error.message)
            raise failure or error_messages.request_failed(error) from error

    async def rename(self, container: Container, name: str) -> None:
        """Raises ConcurrentChange if the name is taken or the container is being removed.

        Docker answers 400 if this container already has the name, and 500 if its directory is
        removed while Docker writes the new name.
        """
        try:
            await self._send(self._docker_container(container).rename(name))
        except DockerError as error:
            if error.status == 400:
                raise ConcurrentChange from error
            if error.status == 500 and (await self.container_state(container))["Dead"]:
                raise ConcurrentChange from error
            raise _change_failed(error) from error

    async def start(self, container: Container) -> None:
        try:
            await self._send(self._docker_container(container).start())
        except DockerError as error:
            is_gone = error.status == 404 and "no such container" in error.message.lower()
            if error.status == 409 or is_gone:
                raise ConcurrentChange from error
            raise error_messages.create_or_start_failed(error, container.spec) from error

    async def stop(self, container: Container, mode: StopMode) -> None:
        """Send the image's stop signal (SIGTERM by default), SIGKILL, or one after the other.

        A single signal is followed by a short wait: most containers end at once.
        """
        docker_container = self._docker_container(container)
        if mode is StopMode.ASK_THEN_KILL:
            grace_s = min(self.config.stop_grace_s, int(self.remaining_s() / 2))
            await self._change(docker_container.stop(t=grace_s))
            return
        number = "SIGKILL"
        if mode is StopMode.ASK:
            inspected = await self._change(docker_container.show())
            number = inspected["Config"].get("StopSignal") or "SIGTERM"
        await self._change(docker_container.kill(signal=number))
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_WAIT_FOR_END_S, self.remaining_s() / 4)):
                await self._change(docker_container.wait())

    async def remove(self, container: Container, *, force: bool = False) -> None:
        """Raises ConcurrentChange if the container runs, is gone or is being removed.

        A concurrent rename may write a file into the directory that Docker is removing, and the
        removal fails with 500; a second removal succeeds.
        """
        docker_container = self._docker_container(container)
        try:
            await self._send(docker_container.delete(force=force, v=True))
        except DockerError as error:
            if error.status != 500:
                raise _change_failed(error) from error
            await self._change(docker_container.delete(force=force, v=True))

    async def is_local_image(self, image: str) -> bool:
        """Whether the daemon has an image that was built or loaded here and not pulled."""
        try:
            inspected = await self._send(self._client.images.inspect(image))
        except DockerError as error:
            if error.status in (400, 404):
                return False
            raise error_messages.request_failed(error) from error
        return not inspected.get("RepoDigests")

    async def registry_digest(self, image: str, credentials: str) -> str:
        """Ask the image's registry through the daemon for the digest of its tag."""
        client = self._client
        await self.version()  # Also negotiates the version of the API.
        name = quote(image, safe="/:")
        url = URL(
            f"{client.docker_host}/{client.api_version}/distribution/{name}/json", encoded=True
        )
        response = await self._send(
            client.session.get(url, headers={"X-Registry-Auth": credentials})
        )
        async with response:
            body = await self._send(response.json())
        if response.status != 200:
            raise BackendUnavailable(f"the registry of {image} answered: {body.get('message')}")
        return str(body["Descriptor"]["digest"])

    async def version(self) -> str:
        return str((await self._query(self._client.version()))["Version"])

    async def network_of(self, pool_name: str) -> str:
        """Return the network of a pool's containers, and create it if the pool has none."""
        if self.config.network is not None:
            return self.config.network
        if found := await self._find_network(pool_name):
            return found
        installation_id = self.config.installation_id
        body = pool_network.network_body(installation_id, pool_name)
        try:
            await self._send(self._client.networks.create(body))
        except DockerError as error:
            if error.status != 409:
                raise error_messages.network_failed(error, pool_name) from error
        if found := await self._find_network(pool_name):
            return found
        raise error_messages.network_taken(installation_id, pool_name)

    async def _find_network(self, pool_name: str) -> str | None:
        """Return the oldest network with the pool's labels, and remove the others."""
        labels = pool_network.network_labels(self.config.installation_id, pool_name)
        wanted = {"label": [f"{name}={value}" for name, value in labels.items()]}
        found = pool_network.oldest_first(
            await self._query(self._client.networks.list(filters=wanted))
        )
        for duplicate in found[1:]:
            with suppress(DockerError):
                network = await self._send(self._client.networks.get(duplicate))
                await self._send(network.delete())
        return found[0] if found else None

    async def networks(self) -> Sequence[str]:
        """Return the names and ids of all networks."""
        found = await self._query(self._client.networks.list())
        return [name for network in found for name in (network["Name"], network["Id"])]

    @property
    def _client(self) -> aiodocker.Docker:
        return self.connection.client()

    async def _list(
        self, slot: str | None, **filters: Sequence[str]
    ) -> Sequence[aiodocker.docker.DockerContainer]:
        labels = [f"{INSTALLATION_LABEL}={self.config.installation_id}"]
        labels.append(SLOT_LABEL if slot is None else f"{SLOT_LABEL}={slot}")
        encoded = json.dumps({"label": labels, **filters})
        return await self._query(self._client.containers.list(all=True, filters=encoded))

    def _docker_container(self, container: Container) -> aiodocker.docker.DockerContainer:
        return self._client.containers.container(container.docker_id)

    async def _query(self, request: Awaitable[T]) -> T:
        """Send a request that does not concern a single container."""
        try:
            return await self._send(request)
        except DockerError as error:
            raise error_messages.request_failed(error) from error

    async def _change(self, request: Awaitable[T]) -> T:
        """Send a request about a container that another call may be changing."""
        try:
            return await self._send(request)
        except DockerError as error:
            raise _change_failed(error) from error

    async def _send(self, request: Awaitable[T]) -> T:
        """Raises DockerError for an error response, BackendUnavailable for a broken connection."""
        try:
            async with asyncio.timeout(self.remaining_s()):
                return await request
        except TimeoutError:
            raise  # TimeoutError is an OSError; the backend reports it.
        except (aiohttp.ClientError, OSError) as error:
            raise BackendUnavailable(f"{self.call}: {error}") from error


def _change_failed(error: DockerError) -> Exception:
    if error.status in (404, 409):
        return ConcurrentChange()
    return error_messages.request_failed(error)
