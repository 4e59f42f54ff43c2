"""A whole installation on an emulated Coolify: the emulator, `botpool serve` and the bots.

All of them are processes of their own. Coolify's minutes pass in seconds, and every setting of
Botpool that is about Coolify's time is shortened alike; the bots live in ours.
"""

import asyncio
import json
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
from server import COMMAND, FINAL, READY_S, Installation, Server, client, none_left

TOKEN = "1|emulated"
IMAGE = "acme/bot:1"
SCALE = 100.0
ANSWERS_AT = re.compile(r"answers at (http://\S+)")
Body = dict[str, Any]


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
class CoolifyInstallation(Installation):
    """Replicas one after the other at one address, which the containers know."""

    coolify: Coolify
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self) -> Server:
        log = self.data_dir / f"serve-{len(self.servers)}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [COMMAND, "serve", "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                cwd=self.data_dir,
            )
        server = Server(process=process, url=self.url, log=log)
        self.servers.append(server)
        await server.is_ready()
        return server

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        async with client(self.url, self.key) as user:
            answer = await user.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()

    async def send(self, count: int, bot_data: Mapping[str, float]) -> list[Body]:
        """So many bots at once, as the API answers them."""
        body = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": bot_data}
        answers = await asyncio.gather(
            *(self.ask("POST", "/v1/bots", json=body) for _ in range(count))
        )
        return [answer["bot"] for answer in answers]

    async def bot(self, bot_id: int) -> Body:
        bot: Body = (await self.ask("GET", f"/v1/bots/{bot_id}"))["bot"]
        return bot

    async def slots(self) -> list[Body]:
        slots: list[Body] = (await self.ask("GET", "/v1/slots"))["slots"]
        return slots

    async def events(self, bot_id: int) -> list[Body]:
        events: list[Body] = (await self.ask("GET", f"/v1/bots/{bot_id}/events"))["events"]
        return events

    async def leaders(self) -> list[int]:
        """The bots whose slot led a pull, by their own histories, in the order of leading."""
        bots = (await self.ask("GET", "/v1/bots"))["bots"]
        led = [
            (event["at"], bot["id"])
            for bot in bots
            for event in await self.events(bot["id"])
            if event["kind"] == "slot.phase" and (event["data"] or {}).get("leads")
        ]
        return [bot_id for _, bot_id in sorted(led)]

    async def phases(self) -> list[str]:
        return sorted(slot["phase"] or slot["status"] for slot in await self.slots())

    async def ended(self, within_s: float = 40) -> dict[int, str]:
        """Wait until every bot is final and every slot idle; how each ended."""

        async def going_on() -> list[str]:
            bots = (await self.ask("GET", "/v1/bots"))["bots"]
            slots = [slot["status"] for slot in await self.slots()]
            return [bot["status"] for bot in bots if bot["status"] not in FINAL] + [
                status for status in slots if status != "idle"
            ]

        await none_left("bots and slots", going_on, within_s=within_s, every_s=0.2)
        bots = (await self.ask("GET", "/v1/bots"))["bots"]
        return {bot["id"]: bot["status"] for bot in bots}

    def log_lines(self) -> list[Body]:
        """What the replicas said, in their order."""
        lines = [line for server in self.servers for line in server.log.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def command(self, *arguments: str) -> str:
        """What the command says to an operator, on one line."""
        command = [COMMAND, *arguments, "--url", self.url, "--key", self.key]
        ran = await asyncio.to_thread(
            subprocess.run, command, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        return " ".join(ran.stdout.decode().split())

    async def read_log_of(self, bot_id: int) -> str:
        async with client(self.url, self.key) as user:
            return (await user.get(f"/v1/bots/{bot_id}/logs")).text


@asynccontextmanager
async def installed_on(
    coolify: Coolify, database_url: str, data_dir: Path, **changes: str
) -> AsyncIterator[CoolifyInstallation]:
    """Not served yet. `changes` are settings of `backends.coolify`."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
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


async def reached(what: str, found: Callable[[], Awaitable[bool]], *, within_s: float = 20) -> None:
    """Ask again and again until it is so."""

    async def lacking() -> list[str]:
        return [] if await found() else [what]

    await none_left("things that should have come", lacking, within_s=within_s)
