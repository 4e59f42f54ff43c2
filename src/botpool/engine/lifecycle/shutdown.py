"""Ends all bots of an installation that shuts down."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from botpool.domain.bot_ending import BotEnding
from botpool.domain.states import BotStatus
from botpool.engine.admission.admission import Admission
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.release import StopGrace
from botpool.engine.lifecycle.standby_keeper import StandbyKeeper
from botpool.engine.service import Service
from botpool.store.bot_stops import list_live_bots
from botpool.store.releases import retry_releases_now

_POLL_S = 0.1
_STOP_GRACE_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(Service):
    """Ends all bots and waits until their containers have stopped."""

    admission: Admission
    bot_endings: BotEndings
    stop_grace: StopGrace
    standby_keeper: StandbyKeeper

    async def end_all(
        self,
        *,
        reason: str,
        within_s: float = 15.0,
        on_left: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Close admission and end all bots until none has a slot, or until the time is over.

        Containers get a few seconds after the stop signal, whatever their pool's `stop_grace_s` is.
        Repeats, because a bot may return from a slot to the queue. `on_left` receives the number
        of remaining bots.
        """
        self.admission.close()
        self.stop_grace.limit_s = _STOP_GRACE_S
        await retry_releases_now(self.database)
        self.wakeups.wake_reconcilers()
        try:
            async with asyncio.timeout(within_s):
                while left := await self._end_twice(reason) + await self.standby_keeper.stop_all():
                    on_left(left)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return

    async def _end_twice(self, reason: str) -> int:
        """Return 0 only if two rounds find no bot: one may be requeued during the first."""
        return await self._end_listed(reason) or await self._end_listed(reason)

    async def _end_listed(self, reason: str) -> int:
        """End queued bots before others, so that no freed slot is assigned to them."""
        queued = await list_live_bots(self.database, queued=True)
        for bot in queued:
            await self.bot_endings.cancel_queued(bot.bot_id, reason=reason)
        ending = BotEnding(status=BotStatus.CANCELLED, reason=reason)
        in_slots = await list_live_bots(self.database, queued=False)
        for bot in in_slots:
            assert bot.assignment_id is not None
            if not await self.bot_endings.end(bot.assignment_id, ending):
                await self.bot_endings.cancel_retry(bot.bot_id, reason=reason)
        return len(queued) + len(in_slots)
