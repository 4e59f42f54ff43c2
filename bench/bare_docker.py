"""A user's own `docker run` and `docker start` of the bot that Botpool starts in `first_calls`."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.bare_agents import BareAgents
from tests.support.dockerd import Dockerd


@dataclass(frozen=True, slots=True, kw_only=True)
class BareDocker:
    dockerd: Dockerd
    image: str
    agents: BareAgents

    async def starts(self, count: int) -> list[float]:
        """Return the time from `docker start` to the first call of each container."""
        bots, containers = await self._create(count)
        began = time.monotonic()
        await asyncio.gather(*(asyncio.to_thread(self._start, each) for each in containers))
        return await self._finish(bots, containers, began)

    async def runs(self, count: int) -> list[float]:
        """Return the time from `docker run` (create and start) to the first call of each one."""
        began = time.monotonic()
        bots, containers = await self._create(count, start=True)
        return await self._finish(bots, containers, began)

    async def _create(self, count: int, *, start: bool = False) -> tuple[list[int], list[str]]:
        bots = self.agents.new_bots(count)

        def create(environment: Mapping[str, str]) -> str:
            body = self._body(environment)
            container: str = self.dockerd.call("POST", "/containers/create", body)["Id"]
            if start:
                self._start(container)
            return container

        created = await asyncio.gather(*(asyncio.to_thread(create, bots[bot]) for bot in bots))
        return list(bots), list(created)

    def _body(self, environment: Mapping[str, str]) -> dict[str, Any]:
        return {
            "Image": self.image,
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "HostConfig": {"NetworkMode": "host"},
        }

    def _start(self, container: str) -> None:
        self.dockerd.call("POST", f"/containers/{container}/start")

    async def _finish(self, bots: list[int], containers: list[str], began: float) -> list[float]:
        times = [called_at - began for called_at in await self.agents.calls.of(bots)]
        self.agents.calls.let_bots_end()
        for container in containers:
            await asyncio.to_thread(
                self.dockerd.request, "DELETE", f"/containers/{container}", force=1
            )
        return times
