"""BotEnding everything: for an installation that goes down with all its bots."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from botpool.domain.bot_ending import BotEnding
from botpool.domain.states import BotStatus
from botpool.engine.admission.admission import Admission
from botpool.engine.lifecycle.transitions import Transitions

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    transitions: Transitions
    admission: Admission

    async def end_all(
        self,
        *,
        reason: str,
        within_s: float = 15.0,
        on_left: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Admit nobody, cancel who waits, end who runs, until every container has stopped.

        Repeated until nobody is left: a bot may be on its way from a slot back into the queue.
        """
        self.admission.close()
        try:
            async with asyncio.timeout(within_s):
                while left := await self._end_all_seen(reason):
                    on_left(left)
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            return

    async def _end_all_seen(self, reason: str) -> int:
        """Looked for twice: one may go from its slot to the queue between our looks at the two."""
        return await self._end_those_seen(reason) or await self._end_those_seen(reason)

    async def _end_those_seen(self, reason: str) -> int:
        """Those who wait go first: a freed slot must not be handed to them."""
        database = self.transitions.database
        waiting = await database.fetch("list_live_bots", {"queued": True})
        for row in waiting:
            await self.transitions.cancel_queued(row["bot_id"], reason=reason)
        ending = BotEnding(status=BotStatus.CANCELLED, reason=reason)
        holding = await database.fetch("list_live_bots", {"queued": False})
        for row in holding:
            if not await self.transitions.end_bot(row["assignment_id"], ending):
                await self.transitions.cancel_retry(row["bot_id"], reason=reason)
        return len(waiting) + len(holding)
