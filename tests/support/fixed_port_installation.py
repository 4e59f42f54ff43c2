"""An installation whose replicas use one port, because its containers must know the address.

The methods wrap the HTTP calls that tests of the backends need.
"""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.server import COMMAND, FINAL, Installation, Server, client, none_left

Body = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class FixedPortInstallation(Installation):
    """Replicas run one after the other at one address, which the containers know."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(
        self, port: int | None = None, *, settings: Mapping[str, str] | None = None
    ) -> Server:
        return await Installation.serve(self, port or self.port, settings=settings)

    async def call(self, method: str, path: str, **more: Any) -> Any:
        async with client(self.url, self.key) as user:
            response = await user.request(method, path, **more)
        assert response.is_success, response.text
        return response.json()

    async def send(
        self, count: int, bot_data: Mapping[str, float], pool_name: str = "google-meet"
    ) -> list[Body]:
        """Request that many bots at once and return the bots of the responses."""
        body = {
            "meetingUrl": "https://meet.google.com/abc-defg-hij",
            "platform": pool_name,
            "botData": bot_data,
        }
        responses = await asyncio.gather(
            *(self.call("POST", "/v1/bots", json=body) for _ in range(count))
        )
        return [response["bot"] for response in responses]

    async def bot(self, bot_id: int) -> Body:
        bot: Body = (await self.call("GET", f"/v1/bots/{bot_id}"))["bot"]
        return bot

    async def slots(self) -> list[Body]:
        slots: list[Body] = (await self.call("GET", "/v1/slots"))["slots"]
        return slots

    async def events(self, bot_id: int) -> list[Body]:
        events: list[Body] = (await self.call("GET", f"/v1/bots/{bot_id}/events"))["events"]
        return events

    async def leaders(self) -> list[int]:
        """Return the bots whose slot led a pull, in the order of the history."""
        bots = (await self.call("GET", "/v1/bots"))["bots"]
        led = [
            (event["at"], bot["id"])
            for bot in bots
            for event in await self.events(bot["id"])
            if event["kind"] == "slot.phase" and (event["data"] or {}).get("leads")
        ]
        return [bot_id for _, bot_id in sorted(led)]

    async def phases(self) -> list[str]:
        return sorted(slot["phase"] or slot["status"] for slot in await self.slots())

    async def wait_for_in_call(self, *bots: Body) -> None:
        async def all_in_call() -> bool:
            current = [await self.bot(bot["id"]) for bot in bots]
            return all(bot["status"] == "IN_CALL" for bot in current)

        await wait_for("bots in their calls", all_in_call, within_s=150)

    async def wait_for_end(self, within_s: float = 150) -> dict[int, str]:
        """Wait until every bot is final and every slot is idle; return the bots' statuses."""

        async def unfinished() -> list[str]:
            bots = (await self.call("GET", "/v1/bots"))["bots"]
            slots = [slot["status"] for slot in await self.slots()]
            return [bot["status"] for bot in bots if bot["status"] not in FINAL] + [
                status for status in slots if status != "idle"
            ]

        await none_left("bots and slots", unfinished, within_s=within_s, every_s=0.2)
        bots = (await self.call("GET", "/v1/bots"))["bots"]
        return {bot["id"]: bot["status"] for bot in bots}

    def log_lines(self) -> list[Body]:
        """Return the log lines of all replicas, in order."""
        logs = dict.fromkeys(server.log for server in self.servers)
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def command_output(self, *arguments: str) -> str:
        """Return the output of a `botpool` command on one line."""
        command = [COMMAND, *arguments, "--url", self.url, "--key", self.key]
        ran = await asyncio.to_thread(
            subprocess.run, command, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        return " ".join(ran.stdout.decode().split())

    async def doctor_output(self) -> str:
        """Return the output of `botpool doctor`; a failed check fails the test."""
        ran = await asyncio.to_thread(
            subprocess.run,
            [COMMAND, "doctor"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self._environment(),
            cwd=self.data_dir,
        )
        output = " ".join(ran.stdout.decode().split())
        assert ran.returncode == 0, f"{output}{ran.stderr.decode()}"
        return output

    async def bot_output(self, bot_id: int) -> str:
        async with client(self.url, self.key) as user:
            return (await user.get(f"/v1/bots/{bot_id}/logs")).text


async def wait_for(
    what: str, is_there: Callable[[], Awaitable[bool]], *, within_s: float = 120
) -> None:
    """Poll until the condition holds. The limit is generous, because the machine may be slow."""

    async def missing() -> list[str]:
        return [] if await is_there() else [what]

    await none_left("conditions that do not hold", missing, within_s=within_s)
