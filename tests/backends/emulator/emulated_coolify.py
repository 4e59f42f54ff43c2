"""An emulated Coolify in memory, its clock in our hand, and a client of it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from botpool.emulators.coolify import (
    ContainerRuntime,
    EmulatedTransport,
    ManualClock,
    Nature,
    World,
)

HEADERS = {"Authorization": "Bearer 1|emulated", "Accept": "application/json"}
EXITED = "exited:unhealthy"
PLACE = {
    "project_uuid": "emulated-project",
    "server_uuid": "emulated-server",
    "environment_name": "production",
}
NO_LAG = Nature(status_lag_s=(0, 0), stop_s=(30, 30), delete_s=(5, 5))
IMAGE = "team/bot:1"


def at(path: str, uuid: str) -> str:
    """The path of a call with its names filled in."""
    return path.format(uuid=uuid, environment_name_or_uuid=PLACE["environment_name"])


class Coolify:
    def __init__(self, world: World, clock: ManualClock, client: httpx.AsyncClient) -> None:
        self.world = world
        self.clock = clock
        self.client = client

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.client.request(method, f"/api/v1{path}", **more)

    async def get(self, path: str) -> Any:
        return (await self.call("GET", path)).raise_for_status().json()

    async def faults(self, **faults: Any) -> None:
        answer = await self.client.post("/_emulator/faults", json=faults)
        assert answer.status_code == 200, answer.text

    async def state(self) -> Any:
        return (await self.client.get("/_emulator/state")).raise_for_status().json()

    def wait(self, seconds: float) -> None:
        """Let time pass, event by event, as it does on a server that ticks."""
        self.clock.advance(seconds)
        self.world.advance(self.clock.now())
        self.world.poll()

    async def create(self, name: str = "bot", **fields: Any) -> str:
        wanted = {
            **PLACE,
            "docker_registry_image_name": "team/bot",
            "docker_registry_image_tag": "1",
            "ports_exposes": "80",
            "name": name,
            "autogenerate_domain": False,
            "instant_deploy": False,
            "is_consistent_container_name_enabled": True,
            **fields,
        }
        answer = await self.call("POST", "/applications/dockerimage", json=wanted)
        assert answer.status_code == 201, answer.text
        uuid: str = answer.json()["uuid"]
        return uuid

    async def write(self, uuid: str, values: Mapping[str, str], **flags: bool) -> httpx.Response:
        every = dict.fromkeys(("is_preview", "is_literal", "is_multiline", "is_shown_once"), False)
        data = [{"key": k, "value": v, **every, **flags} for k, v in values.items()]
        return await self.call(
            "PATCH",
            f"/applications/{uuid}/envs/bulk",
            content=json.dumps({"data": data}),
            headers={"Content-Type": "application/json"},
        )

    async def start(self, uuid: str) -> str:
        answer = await self.call("POST", f"/applications/{uuid}/start")
        assert answer.status_code == 200, answer.text
        deployment: str = answer.json()["deployment_uuid"]
        return deployment

    async def stop(self, uuid: str) -> None:
        answer = await self.call("POST", f"/applications/{uuid}/stop?docker_cleanup=false")
        assert answer.status_code == 200, answer.text

    async def running(self, **fields: Any) -> str:
        """An application that runs and is known to, with its image on the server's disk."""
        self.world.deployments.images.add(IMAGE)
        uuid = await self.create(**fields)
        await self.start(uuid)
        self.wait(120)
        assert self.truth(uuid) and (await self.status(uuid)).startswith("running")
        return uuid

    async def status(self, uuid: str) -> str:
        status: str = (await self.get(f"/applications/{uuid}"))["status"]
        return status

    async def deployment(self, uuid: str) -> str:
        status: str = (await self.get(f"/deployments/{uuid}"))["status"]
        return status

    def truth(self, uuid: str) -> bool:
        return self.world.applications[uuid].running


@asynccontextmanager
async def emulated(
    nature: Nature | None = None, *, seed: int = 0, runtime: ContainerRuntime | None = None
) -> AsyncIterator[Coolify]:
    world, clock = World(nature, seed=seed, runtime=runtime), ManualClock()
    transport = EmulatedTransport(world, clock)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://coolify", headers=HEADERS
    ) as client:
        yield Coolify(world, clock, client)
