"""Queries of the data that is kept with a bot. They change nothing."""

from dataclasses import dataclass
from typing import Any

from botpool.domain.bot_data import Artifact, Picture, Screenshot, SentCommand
from botpool.domain.errors import NotFound
from botpool.domain.ids import BotId
from botpool.domain.pages import CommandPosition, Page
from botpool.store.bot_data import get_screenshot, list_artifacts, list_commands, list_screenshots
from botpool.store.bots import get_bot
from botpool.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class BotDataQueries:
    """Reads artifacts, screenshots and commands of bots."""

    database: Database

    async def artifacts(self, bot_id: BotId) -> list[Artifact]:
        """Return the files that a bot listed, in its order."""
        found = await list_artifacts(self.database, bot_id=bot_id)
        return found or await self._nothing_of(bot_id)

    async def screenshots(self, bot_id: BotId) -> list[Screenshot]:
        """Return a bot's screenshots without their content, oldest first."""
        found = await list_screenshots(self.database, bot_id=bot_id)
        return found or await self._nothing_of(bot_id)

    async def screenshot(self, bot_id: BotId, number: int) -> Picture:
        """Return the content of a screenshot."""
        picture = await get_screenshot(self.database, bot_id=bot_id, number=number)
        if picture is None:
            await self._nothing_of(bot_id)
            raise NotFound("screenshot", number)
        return picture

    async def commands(
        self, bot_id: BotId, *, after: CommandPosition | None, limit: int
    ) -> Page[SentCommand, CommandPosition]:
        """Return a page of the commands to a bot, oldest first."""
        found = await list_commands(
            self.database,
            bot_id=bot_id,
            after=0 if after is None else after.command_id,
            limit=limit + 1,
        )
        if not found:
            await self._nothing_of(bot_id)
        shown = found[:limit]
        more = len(found) > limit
        return Page(items=shown, next=CommandPosition(shown[-1].id) if more else None)

    async def _nothing_of(self, bot_id: BotId) -> list[Any]:
        """Return an empty list for a bot that exists; NotFound for an unknown one."""
        if await get_bot(self.database, bot_id=bot_id) is None:
            raise NotFound("bot", bot_id)
        return []
