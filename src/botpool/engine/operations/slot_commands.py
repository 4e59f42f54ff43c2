"""An operator's levers on one slot: release it, recover it, delete it with its bot.

Each is what the engine would do by itself, done now, and in the history with who and why. Two
operators at once, or an operator and the engine, find each other by the slot's version: the second
looks again at what the slot has become.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botpool.domain.bot_ending import BotEnding
from botpool.domain.errors import NotFound
from botpool.domain.ids import SlotId
from botpool.domain.states import BotStatus, FailureCode, SlotStatus
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log
from botpool.engine.operations.pool_commands import PoolCommands
from botpool.store.rows import to_slot_change

_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCommands:
    transitions: Transitions
    pools: PoolCommands

    async def release(self, slot_id: SlotId, *, reason: str) -> None:
        """Take a slot away from its bot, which has then failed. Without a bot: nothing to do."""
        slot = await self._find(slot_id)
        if SlotStatus(slot["status"]) in (SlotStatus.DEPLOYING, SlotStatus.BUSY):
            await self._end(slot, reason)

    async def recover(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> None:
        """Reset a slot, whatever it is in. A bot that is still deploying is tried again."""
        for _ in range(_TRIES):
            if await self._recover(await self._find(slot_id), reason, correlation_id):
                return

    async def delete(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> None:
        """Delete a slot, with the bot that it has."""
        slot = await self._find(slot_id)
        delete_requested = await self.transitions.database.fetch_one(
            "request_slot_deletion",
            {"slot_id": slot_id, "reason": reason, "correlation_id": correlation_id},
        )
        if delete_requested is None:
            await self.pools.remove(slot_id, reason=reason, correlation_id=correlation_id)
        else:
            await self._end(slot, reason)

    async def _find(self, slot_id: SlotId) -> Mapping[str, Any]:
        slot = await self.transitions.database.fetch_one("find_slot", {"slot_id": slot_id})
        if slot is None:
            raise NotFound("slot", slot_id)
        return slot

    async def _end(self, slot: Mapping[str, Any], reason: str) -> bool:
        """Fenced by the assignment alone: whatever the slot does, this bot loses it."""
        if slot["assignment_id"] is None:
            return False
        ending = BotEnding(
            status=BotStatus.FAILED,
            reason=f"The slot was {reason}.",
            failure_code=FailureCode.OPERATOR,
        )
        return await self.transitions.end_bot(slot["assignment_id"], ending)

    async def _recover(
        self, slot: Mapping[str, Any], reason: str, correlation_id: str | None
    ) -> bool:
        database = self.transitions.database
        fence = {"slot_id": slot["slot_id"], "version": slot["version"]}
        match SlotStatus(slot["status"]):
            case SlotStatus.BUSY:
                return await self._end(slot, reason)
            case SlotStatus.DEPLOYING:
                row = await database.fetch_one(
                    "fail_deployment",
                    fence
                    | {
                        "assignment_id": slot["assignment_id"],
                        "reason": reason,
                        "deployment_over": False,
                        "nothing_started": False,
                    },
                )
                moved = (SlotStatus.DEPLOYING, SlotStatus.RELEASING)
            case SlotStatus.IDLE:
                row = await database.fetch_one("mark_slot_error", fence | {"reason": reason})
                moved = (SlotStatus.IDLE, SlotStatus.ERROR)
            case _:
                row = await database.fetch_one(
                    "retry_slot_now", fence | {"reason": reason, "correlation_id": correlation_id}
                )
                self.transitions.wakeups.slots_due()
                return row is not None
        if row is None:
            return False
        event_log.slot_transition(to_slot_change(row), old=moved[0], new=moved[1], reason=reason)
        self.transitions.wakeups.slots_due()
        return True
