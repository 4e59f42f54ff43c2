"""A user's stop. It wins at every stage: in the queue, while deploying, in the call.

The bot may move between queue and slot while we look, so the stages are tried until one of them
takes: each is one statement that changes a bot only where it finds it.
"""

from dataclasses import dataclass

from botpool.domain.decisions import Ending
from botpool.domain.ids import BotId
from botpool.domain.records import Admitted
from botpool.domain.states import FINAL, RUNNING, BotStatus, SlotStatus, sources_of
from botpool.engine.admission import Admission
from botpool.engine.moves import Moves

_REASON = "stopped by its user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    moves: Moves
    admission: Admission

    async def stop(self, bot_id: BotId) -> tuple[Admitted, bool]:
        """The bot afterwards, and whether it was still to be stopped."""
        bot = await self.admission.find(bot_id)
        if bot.bot.status in FINAL:
            return bot, False
        while not await self._try_each_stage(bot_id):
            bot = await self.admission.find(bot_id)
            if bot.bot.status in FINAL:
                return bot, False
        return await self.admission.find(bot_id), True

    async def _try_each_stage(self, bot_id: BotId) -> bool:
        database, wanted = self.moves.database, {"bot_id": bot_id, "reason": _REASON}
        if await database.fetch_one("cancel_queued_bot", wanted):
            return True
        slot = await database.fetch_one("find_slot_of_bot", {"bot_id": bot_id})
        if slot is None:
            return False
        match SlotStatus(slot["status"]):
            case SlotStatus.DEPLOYING:
                ending = Ending(status=BotStatus.CANCELLED, reason=_REASON)
                return await self.moves.end_bot(slot["assignment_id"], ending)
            case SlotStatus.BUSY:
                row = await database.fetch_one(
                    "ask_bot_to_leave",
                    wanted
                    | {
                        "running": sorted(RUNNING),
                        "sources": sorted(sources_of(BotStatus.LEAVING)),
                        "grace_s": self.moves.policy.leave_grace_s,
                    },
                )
                return row is not None
            case _:
                return await database.fetch_one("cancel_undeployed_bot", wanted) is not None
