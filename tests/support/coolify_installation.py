"""An installation on an emulated Coolify: the emulator, `botpool serve` and the bots.

Each is a process of its own. The emulator's minutes pass in seconds, and the settings that depend
on Coolify's speed are scaled alike; bots run in real time.
"""

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.fixed_port_installation import (
    Body,
    FixedPortInstallation,
    wait_for,
)
from tests.support.ports import free_port
from tests.support.server import COMMAND, READY_S, client

TOKEN = "1|emulated"
IMAGE = "acme/bot:1"
SCALE = 100.0
HELD_PULL_S = 86_400.0
"""Emulated seconds: far longer than a test runs."""
ANSWERS_AT = re.compile(r"answers at (http://\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coolify:
    """A running `botpool emulate coolify`."""

    process: "subprocess.Popen[str]"
    url: str
    scale: float

    @classmethod
    @asynccontextmanager
    async def emulated(cls, scale: float = SCALE, *options: str) -> AsyncIterator[Self]:
        command = [COMMAND, "emulate", "coolify", "--port", "0", "--time-scale", f"{scale:g}"]
        command += options
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            output = ""
            while not (found := ANSWERS_AT.search(output)):
                line = await asyncio.to_thread(process.stdout.readline)
                assert line, "the emulator ended"
                output += line
            yield cls(process=process, url=found[1], scale=scale)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(READY_S)
            process.stdout.close()

    async def state(self) -> Body:
        state: Body = await self._call("GET", "/_emulator/state")
        return state

    async def fail(self, **faults: Any) -> None:
        await self._call("POST", "/_emulator/faults", json=faults)

    async def hold_next_pull(self) -> None:
        """Let the next pull of an image last until `finish_held_pull`."""
        await self.fail(pullSlow={"seconds": HELD_PULL_S, "times": 1})

    async def finish_held_pull(self) -> None:
        """End the held pull, once it has begun."""

        async def has_begun() -> bool:
            return bool((await self.state())["pulls"])

        await wait_for("the held pull", has_begun)
        await self._call("POST", "/_emulator/time", json={"advance": HELD_PULL_S})

    @asynccontextmanager
    async def recorded_descriptions(self) -> AsyncIterator[Mapping[str, list[str]]]:
        """Record every description that Coolify shows, in order, by the application's name."""
        recorded: dict[str, list[str]] = {}

        async def watch() -> None:
            while True:
                for each in await self._call("GET", "/api/v1/applications"):
                    texts = recorded.setdefault(each["name"], [])
                    if texts[-1:] != [each["description"]]:
                        texts.append(each["description"])
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(watch())
        try:
            yield recorded
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def delete(self, uuid: str) -> None:
        """Delete an application as a user of Coolify does, and wait until it is gone."""
        await self._call("DELETE", f"/api/v1/applications/{uuid}")

        async def gone() -> bool:
            return uuid not in {each["uuid"] for each in (await self.state())["applications"]}

        await wait_for("the deletion of the application", gone)

    def containers(self) -> list[psutil.Process]:
        """Return the processes that run in containers."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        async with client(self.url, TOKEN) as user:
            response = await user.request(method, path, **more)
        assert response.is_success, response.text
        return response.json()


@dataclass(slots=True, kw_only=True)
class CoolifyInstallation(FixedPortInstallation):
    coolify: Coolify


@asynccontextmanager
async def coolify_installation(
    coolify: Coolify, database_url: str, data_dir: Path, **changes: str
) -> AsyncIterator[CoolifyInstallation]:
    """Create an installation without replicas. `changes` are settings of `backends.coolify`."""
    port = free_port()
    settings = scaled_settings(coolify) | {"server.public_url": f"http://127.0.0.1:{port}"}
    settings |= {f"backends.coolify.{name}": value for name, value in changes.items()}
    installed = CoolifyInstallation(
        database_url=database_url, data_dir=data_dir, settings=settings, coolify=coolify, port=port
    )
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


def scaled_settings(coolify: Coolify) -> dict[str, str]:
    """Return settings with scaled intervals. Timeouts are not scaled: the machine may be slow."""
    scale = coolify.scale
    return {
        "pools.google-meet.backend": "coolify",
        "pools.google-meet.image": IMAGE,
        "pools.google-meet.max_size": "5",
        # The seeds' COOLIFY_API_URL includes this path; the address without it works too.
        "backends.coolify.url": f"{coolify.url}/api/v1",
        "backends.coolify.token": TOKEN,
        "backends.coolify.project_uuid": "emulated-project",
        "backends.coolify.server_uuid": "emulated-server",
        "backends.coolify.requests_per_minute": f"{200 * scale:.0f}",
        "backends.coolify.status_lag_s": f"{60 / scale:g}",
        "deploy.poll_interval_s": f"{15 / scale:g}",
        "deploy.grace_s": f"{180 / scale:g}",
        "agent.heartbeat_interval_ms": "500",
    }
