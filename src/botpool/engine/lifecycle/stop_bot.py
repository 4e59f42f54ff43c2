"""Stops a bot at its user's request, at every stage: queued, deploying or in the call.

The bot may change between queue and slot meanwhile. So the stages are tried in turn until one
applies; each stage is one statement that changes the bot only if it is in that stage.
"""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.bot_ending import BotEnding
from botpool.domain.bots import AdmittedBot, Bot
from botpool.domain.callers import Caller
from botpool.domain.communication import LeaveBy
from botpool.domain.ids import BotId
from botpool.domain.states import FINAL, RUNNING, BotStatus, SlotStatus, statuses_before
from botpool.engine.admission.admission import Admission
from botpool.engine.audit import announce
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.bot_stops import ask_bot_to_leave
from botpool.store.slots import SlotOfBot, find_slot_of_bot


def _reason(bot: Bot, caller: Caller | None) -> str:
    """Return "its user" only for the key that created the bot."""
    if caller is None or (bot.created_by and bot.created_by.key_id == caller.key_id):
        return reasons.STOPPED_BY_USER
    return reasons.stopped_by_key(caller.key_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BotStopper(Service):
    """Stops single bots."""

    admission: Admission
    bot_endings: BotEndings

    async def stop(self, bot_id: BotId, caller: Caller | None = None) -> tuple[AdmittedBot, bool]:
        """Stop a bot that the caller sees; returns the bot, and False if it had already ended."""
        tenant_id = None if caller is None else caller.visible_tenant
        bot = await self.admission.find(bot_id, tenant_id=tenant_id)
        if bot.bot.status in FINAL:
            return bot, False
        reason = _reason(bot.bot, caller)
        if reason != reasons.STOPPED_BY_USER:
            before = {"status": bot.bot.status}
            await announce(self.database, "bot.stop", f"bot {bot_id}", before=before)
        while not await self._try_each_stage(bot_id, reason):
            bot = await self.admission.find(bot_id)
            if bot.bot.status in FINAL:
                return bot, False
        return await self.admission.find(bot_id), True

    async def _try_each_stage(self, bot_id: BotId, reason: str) -> bool:
        if await self.bot_endings.cancel_scheduled(bot_id, reason=reason):
            return True
        if await self.bot_endings.cancel_queued(bot_id, reason=reason):
            return True
        slot = await find_slot_of_bot(self.database, bot_id=bot_id)
        if slot is None:
            return False
        match slot.status:
            case SlotStatus.DEPLOYING:
                ending = BotEnding(status=BotStatus.CANCELLED, reason=reason)
                return await self.bot_endings.end(slot.assignment_id, ending)
            case SlotStatus.BUSY:
                if await self._cancel_waiting(bot_id, slot, reason):
                    return True
                return await self._ask_to_leave(bot_id, reason)
            case _:
                return await self.bot_endings.cancel_retry(bot_id, reason=reason)

    async def _cancel_waiting(self, bot_id: BotId, slot: SlotOfBot, reason: str) -> bool:
        """Cancel a scheduled bot that waits in its container; False if it has joined meanwhile."""
        bot = (await self.admission.find(bot_id)).bot
        if bot.status is not BotStatus.DEPLOYING:
            return False
        ending = BotEnding(status=BotStatus.CANCELLED, reason=reason)
        return await self.bot_endings.end(slot.assignment_id, ending, version=slot.version)

    async def _ask_to_leave(self, bot_id: BotId, reason: str) -> bool:
        bot = await ask_bot_to_leave(
            self.database,
            bot_id=bot_id,
            reason=reason,
            running=sorted(RUNNING),
            sources=sorted(statuses_before(BotStatus.LEAVING)),
            grace_s=self.policy.leave_grace_s,
        )
        if bot is None:
            return False
        if bot.leave is LeaveBy.SIGNAL:
            self.wakeups.wake_reconcilers()
        # Without a change, an earlier request stands, or the call has already ended.
        if bot.status is not None and bot.status is not bot.former_status:
            assert bot.correlation_id is not None
            event_log.bot_transition(
                bot_id=bot_id,
                pool=bot.pool_name,
                old=bot.former_status,
                new=bot.status,
                correlation_id=bot.correlation_id,
                reason=reason,
            )
        return True
