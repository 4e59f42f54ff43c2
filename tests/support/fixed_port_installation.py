"""An installation whose containers must know where to call: replicas come and go at one port.

What tests of the platforms ask of it over HTTP, in their words.
"""

import asyncio
import json
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tests.support.server import COMMAND, FINAL, Installation, Server, client, none_left

Body = dict[str, Any]


def reserved_port() -> int:
    """Free now, and nobody's in a moment."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port: int = free.getsockname()[1]
        return port


@dataclass(slots=True, kw_only=True)
class FixedPortInstallation(Installation):
    """Replicas one after the other at one address, which the containers know."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, port: int | None = None) -> Server:
        return await Installation.serve(self, port or self.port)

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        async with client(self.url, self.key) as user:
            answer = await user.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()

    async def send(
        self, count: int, bot_data: Mapping[str, float], platform: str = "google-meet"
    ) -> list[Body]:
        """So many bots at once, as the API answers them."""
        body = {
            "meetingUrl": "https://meet.google.com/abc-defg-hij",
            "platform": platform,
            "botData": bot_data,
        }
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
        logs = dict.fromkeys(server.log for server in self.servers)
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def told_operator(self, *arguments: str) -> str:
        """What the command says to an operator, on one line."""
        command = [COMMAND, *arguments, "--url", self.url, "--key", self.key]
        ran = await asyncio.to_thread(
            subprocess.run, command, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        return " ".join(ran.stdout.decode().split())

    async def examined(self) -> str:
        """What `botpool doctor` finds in order; what it does not fails the test."""
        ran = await asyncio.to_thread(
            subprocess.run,
            [COMMAND, "doctor"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self._environment(),
            cwd=self.data_dir,
        )
        said = " ".join(ran.stdout.decode().split())
        assert ran.returncode == 0, f"{said}{ran.stderr.decode()}"
        return said

    async def read_log_of(self, bot_id: int) -> str:
        async with client(self.url, self.key) as user:
            return (await user.get(f"/v1/bots/{bot_id}/logs")).text


async def reached(what: str, found: Callable[[], Awaitable[bool]], *, within_s: float = 20) -> None:
    """Ask again and again until it is so."""

    async def lacking() -> list[str]:
        return [] if await found() else [what]

    await none_left("things that should have come", lacking, within_s=within_s)
