"""The calls for the data that is kept with a bot."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from botpool.client.calls import PAGE, Calls
from botpool.client.connection import TIMEOUT_S
from botpool.client.records import Artifact, Command, Page, Screenshot
from botpool.client.synchronous import Synchronous, iterated, synchronous


class AsyncBotDataCalls(Calls):
    """Artifacts, screenshots and commands of bots."""

    async def artifacts(self, bot_id: int) -> list[Artifact]:
        """The files that a bot made, in the bot's order."""
        return await self._list(Artifact, f"/v1/bots/{bot_id}/artifacts", "artifacts")

    async def screenshots(self, bot_id: int) -> list[Screenshot]:
        """The last three screenshots of a bot, oldest first, without the pictures."""
        return await self._list(Screenshot, f"/v1/bots/{bot_id}/screenshots", "screenshots")

    async def screenshot(self, bot_id: int, number: int) -> bytes:
        """The picture of a screenshot."""
        path = f"/v1/bots/{bot_id}/screenshots/{number}"
        async with self._connection.stream(path, read_timeout_s=TIMEOUT_S) as parts:
            return b"".join([part async for part in parts])

    async def command(
        self, bot_id: int, kind: str, data: Mapping[str, Any] | None = None
    ) -> Command:
        """Send a command to a bot, such as `chat`; its next heartbeat receives it."""
        path = f"/v1/bots/{bot_id}/commands"
        body = {"kind": kind, "data": dict(data or {})}
        return await self._record(Command, "POST", path, "command", body=body, repeatable=False)

    def commands(self, bot_id: int) -> AsyncGenerator[Command, None]:
        """The commands to a bot with their states, oldest first."""
        return self._pages(Command, f"/v1/bots/{bot_id}/commands", "commands")

    async def commands_page(
        self, bot_id: int, *, limit: int = PAGE, cursor: str | None = None
    ) -> Page[Command]:
        """A page of the commands to a bot with their states, oldest first."""
        path = f"/v1/bots/{bot_id}/commands"
        return await self._page(Command, path, "commands", limit=limit, cursor=cursor)


class BotDataCalls(Synchronous):
    """The synchronous calls for the data of bots."""

    artifacts = synchronous(AsyncBotDataCalls.artifacts)
    screenshots = synchronous(AsyncBotDataCalls.screenshots)
    screenshot = synchronous(AsyncBotDataCalls.screenshot)
    command = synchronous(AsyncBotDataCalls.command)
    commands = iterated(AsyncBotDataCalls.commands)
    commands_page = synchronous(AsyncBotDataCalls.commands_page)
