"""Ending everything: for an installation that goes down with all its bots."""

import asyncio
from dataclasses import dataclass

from botpool.domain.decisions import Ending
from botpool.domain.states import BotStatus
from botpool.engine.moves import Moves

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingAll:
    moves: Moves

    async def end_all(self, *, reason: str, within_s: float = 15.0) -> None:
        """Cancel who waits, end who runs, and wait until their containers have stopped.

        Those who wait go first: a freed slot must not be handed to them.
        """
        database = self.moves.database
        for row in await database.fetch("list_live_bots", {"queued": True}):
            await database.fetch("cancel_queued_bot", {"bot_id": row["bot_id"], "reason": reason})
        ending = Ending(status=BotStatus.CANCELLED, reason=reason)
        for row in await database.fetch("list_live_bots", {"queued": False}):
            await self.moves.end_bot(row["assignment_id"], ending)
        try:
            async with asyncio.timeout(within_s):
                while await database.fetch("list_live_bots", {"queued": False}):  # noqa: ASYNC110 - the database knows, not this process
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            return
