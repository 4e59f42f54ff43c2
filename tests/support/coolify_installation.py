"""A whole installation on an emulated Coolify: the emulator, `botpool serve` and the bots.

All of them are processes of their own. Coolify's minutes pass in seconds, and every setting of
Botpool that is about Coolify's time is shortened alike; the bots live in ours.
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
    reached,
    reserved_port,
)
from tests.support.server import COMMAND, READY_S, client

TOKEN = "1|emulated"
IMAGE = "acme/bot:1"
SCALE = 100.0
ANSWERS_AT = re.compile(r"answers at (http://\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coolify:
    """A running `botpool emulate coolify`."""

    process: "subprocess.Popen[str]"
    url: str
    scale: float

    @classmethod
    @asynccontextmanager
    async def emulated(cls, scale: float = SCALE) -> AsyncIterator[Self]:
        command = [COMMAND, "emulate", "coolify", "--port", "0", "--time-scale", f"{scale:g}"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            said = ""
            while not (found := ANSWERS_AT.search(said)):
                line = await asyncio.to_thread(process.stdout.readline)
                assert line, "the emulator ended"
                said += line
            yield cls(process=process, url=found[1], scale=scale)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(READY_S)
            process.stdout.close()

    async def state(self) -> Body:
        state: Body = await self._ask("GET", "/_emulator/state")
        return state

    async def fail(self, **faults: Any) -> None:
        await self._ask("POST", "/_emulator/faults", json=faults)

    @asynccontextmanager
    async def descriptions_seen(self) -> AsyncIterator[Mapping[str, list[str]]]:
        """All that Coolify's own page shows meanwhile, by application's name, in their order."""
        seen: dict[str, list[str]] = {}

        async def watch() -> None:
            while True:
                for each in await self._ask("GET", "/api/v1/applications"):
                    texts = seen.setdefault(each["name"], [])
                    if texts[-1:] != [each["description"]]:
                        texts.append(each["description"])
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(watch())
        try:
            yield seen
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def delete(self, uuid: str) -> None:
        """As somebody does on Coolify's own page, and until it is gone."""
        await self._ask("DELETE", f"/api/v1/applications/{uuid}")

        async def gone() -> bool:
            return uuid not in {each["uuid"] for each in (await self.state())["applications"]}

        await reached("the end of the application", gone)

    def containers(self) -> list[psutil.Process]:
        """What runs in containers, by the kernel's word."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        async with client(self.url, TOKEN) as somebody:
            answer = await somebody.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()


@dataclass(slots=True, kw_only=True)
class CoolifyInstallation(FixedPortInstallation):
    coolify: Coolify


@asynccontextmanager
async def installed_on(
    coolify: Coolify, database_url: str, data_dir: Path, **changes: str
) -> AsyncIterator[CoolifyInstallation]:
    """Not served yet. `changes` are settings of `backends.coolify`."""
    port = reserved_port()
    settings = scaled_settings(coolify) | {"server.public_url": f"http://127.0.0.1:{port}"}
    settings |= {f"backends.coolify.{name}": value for name, value in changes.items()}
    made = CoolifyInstallation(
        database_url=database_url, data_dir=data_dir, settings=settings, coolify=coolify, port=port
    )
    made.adopt_key()
    try:
        yield made
    finally:
        await made.clear()


def scaled_settings(coolify: Coolify) -> dict[str, str]:
    """Timeouts stay as they are: a busy machine must not be taken for a platform that hangs."""
    scale = coolify.scale
    return {
        "pools.google-meet.backend": "coolify",
        "pools.google-meet.image": IMAGE,
        "pools.google-meet.max_size": "5",
        "backends.coolify.url": coolify.url,
        "backends.coolify.token": TOKEN,
        "backends.coolify.project_uuid": "emulated-project",
        "backends.coolify.server_uuid": "emulated-server",
        "backends.coolify.requests_per_minute": f"{200 * scale:.0f}",
        "backends.coolify.status_lag_s": f"{60 / scale:g}",
        "deploy.poll_interval_s": f"{15 / scale:g}",
        "deploy.grace_s": f"{180 / scale:g}",
        "agent.heartbeat_interval_ms": "500",
    }
