"""A client of an emulated Coolify in memory with a manual clock."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from botpool.emulators.coolify import (
    ContainerRuntime,
    EmulatedClock,
    EmulatedCoolify,
    EmulatorConfig,
)
from tests.support.emulated_transport import EmulatedTransport

HEADERS = {"Authorization": "Bearer 1|emulated", "Accept": "application/json"}
EXITED = "exited:unhealthy"
LOCATION = {
    "project_uuid": "emulated-project",
    "server_uuid": "emulated-server",
    "environment_name": "production",
}
NO_LAG = EmulatorConfig(status_lag_s=(0, 0), stop_s=(30, 30), delete_s=(5, 5))
IMAGE = "team/bot:1"


def at(path: str, uuid: str) -> str:
    """Fill in the parameters of an endpoint's path."""
    environment = LOCATION["environment_name"]
    return path.format(uuid=uuid, environment_name_or_uuid=environment, env_uuid="none")


class CoolifyClient:
    def __init__(
        self, coolify: EmulatedCoolify, clock: EmulatedClock, client: httpx.AsyncClient
    ) -> None:
        self.emulated = coolify
        self.clock = clock
        self.client = client

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.client.request(method, f"/api/v1{path}", **more)

    async def get(self, path: str) -> Any:
        return (await self.call("GET", path)).raise_for_status().json()

    async def faults(self, **faults: Any) -> None:
        response = await self.client.post("/_emulator/faults", json=faults)
        assert response.status_code == 200, response.text

    async def state(self) -> Any:
        return (await self.client.get("/_emulator/state")).raise_for_status().json()

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.emulated.advance(self.clock.now())

    async def create(self, name: str = "bot", **fields: Any) -> str:
        body = {
            **LOCATION,
            "docker_registry_image_name": "team/bot",
            "docker_registry_image_tag": "1",
            "ports_exposes": "80",
            "name": name,
            "autogenerate_domain": False,
            "instant_deploy": False,
            "is_consistent_container_name_enabled": True,
            **fields,
        }
        response = await self.call("POST", "/applications/dockerimage", json=body)
        assert response.status_code == 201, response.text
        uuid: str = response.json()["uuid"]
        return uuid

    async def write(self, uuid: str, values: Mapping[str, str], **flags: bool) -> httpx.Response:
        defaults = dict.fromkeys(
            ("is_preview", "is_literal", "is_multiline", "is_shown_once"), False
        )
        data = [{"key": k, "value": v, **defaults, **flags} for k, v in values.items()]
        return await self.call(
            "PATCH",
            f"/applications/{uuid}/envs/bulk",
            content=json.dumps({"data": data}),
            headers={"Content-Type": "application/json"},
        )

    async def start(self, uuid: str) -> str:
        response = await self.call("POST", f"/applications/{uuid}/start")
        assert response.status_code == 200, response.text
        deployment: str = response.json()["deployment_uuid"]
        return deployment

    async def stop(self, uuid: str) -> None:
        response = await self.call("POST", f"/applications/{uuid}/stop?docker_cleanup=false")
        assert response.status_code == 200, response.text

    async def running(self, **fields: Any) -> str:
        """Create an application, run it and wait until its status is running."""
        self.emulated.deployments.images.add(IMAGE)
        uuid = await self.create(**fields)
        await self.start(uuid)
        self.wait(120)
        assert self.is_running(uuid) and (await self.status(uuid)).startswith("running")
        return uuid

    async def status(self, uuid: str) -> str:
        status: str = (await self.get(f"/applications/{uuid}"))["status"]
        return status

    async def deployment(self, uuid: str) -> str:
        status: str = (await self.get(f"/deployments/{uuid}"))["status"]
        return status

    def is_running(self, uuid: str) -> bool:
        return self.emulated.applications[uuid].running


@asynccontextmanager
async def emulated(
    config: EmulatorConfig | None = None, *, seed: int = 0, runtime: ContainerRuntime | None = None
) -> AsyncIterator[CoolifyClient]:
    coolify, clock = EmulatedCoolify(config, seed=seed, runtime=runtime), EmulatedClock(manual=True)
    transport = EmulatedTransport(coolify, clock)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://coolify", headers=HEADERS
    ) as client:
        yield CoolifyClient(coolify, clock, client)
