"""A user's stop. It wins at every stage: in the queue, while deploying, in the call.

The bot may move between queue and slot while we look, so the stages are tried until one of them
takes: each is one statement that changes a bot only where it finds it.
"""

from dataclasses import dataclass

from botpool.domain.bot_ending import BotEnding
from botpool.domain.ids import BotId
from botpool.domain.records import AdmittedBot
from botpool.domain.states import FINAL, RUNNING, BotStatus, SlotStatus, statuses_before
from botpool.engine.admission.admission import Admission
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log

_REASON = "stopped by its user"


@dataclass(frozen=True, slots=True, kw_only=True)
class BotStopper:
    transitions: Transitions
    admission: Admission

    async def stop(self, bot_id: BotId) -> tuple[AdmittedBot, bool]:
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
        if await self.transitions.cancel_queued(bot_id, reason=_REASON):
            return True
        slot = await self.transitions.database.fetch_one("find_slot_of_bot", {"bot_id": bot_id})
        if slot is None:
            return False
        match SlotStatus(slot["status"]):
            case SlotStatus.DEPLOYING:
                ending = BotEnding(status=BotStatus.CANCELLED, reason=_REASON)
                return await self.transitions.end_bot(slot["assignment_id"], ending)
            case SlotStatus.BUSY:
                return await self._ask_to_leave(bot_id)
            case _:
                return await self.transitions.cancel_retry(bot_id, reason=_REASON)

    async def _ask_to_leave(self, bot_id: BotId) -> bool:
        row = await self.transitions.database.fetch_one(
            "ask_bot_to_leave",
            {
                "bot_id": bot_id,
                "reason": _REASON,
                "running": sorted(RUNNING),
                "sources": sorted(statuses_before(BotStatus.LEAVING)),
                "grace_s": self.transitions.policy.leave_grace_s,
            },
        )
        if row is None:
            return False
        # Asked before, or past leaving already: then its status is what it was.
        if row["status"] != row["former_status"]:
            event_log.bot_transition(
                bot_id=bot_id,
                pool=row["pool_name"],
                old=BotStatus(row["former_status"]),
                new=BotStatus(row["status"]),
                correlation_id=row["correlation_id"],
                reason=_REASON,
            )
        return True
