"""Admitting a bot: an idle slot if nobody waits, else the queue and the matcher.

What happens if the process dies: before the commit nothing was admitted and the caller got no
answer; after it, the slot row says what is wanted and any replica carries on. If the request comes
twice, the idempotency key finds the first bot, also while the first request is under way: the
second waits at the key's unique index. Without a key, a second request is a second bot.
"""

from collections.abc import Mapping
from typing import Any

from botpool.domain.errors import (
    IdempotencyConflict,
    NoSlot,
    NotFound,
    PoolDrained,
    ShuttingDown,
    UnknownPlatform,
)
from botpool.domain.ids import BotId
from botpool.domain.policy import Policy
from botpool.domain.records import Admitted, BotRequest, IdempotencyKey
from botpool.domain.states import BotStatus
from botpool.engine import journal
from botpool.engine.estimates import Estimates
from botpool.engine.matching import Matcher, lock, match_calls
from botpool.engine.telemetry import Telemetry
from botpool.engine.wakeups import Wakeups
from botpool.store.database import Database, Rows, Transaction
from botpool.store.rows import to_bot

_RETRY_AFTER_S = 5


class Admission:
    def __init__(
        self,
        database: Database,
        wakeups: Wakeups,
        matcher: Matcher,
        estimates: Estimates,
        policy: Policy,
        telemetry: Telemetry,
    ) -> None:
        self._database = database
        self._wakeups = wakeups
        self._matcher = matcher
        self._estimates = estimates
        self._policy = policy
        self._telemetry = telemetry
        self._closed = False

    def close(self) -> None:
        """Admit nobody any more: everything is about to end."""
        self._closed = True

    async def admit(self, request: BotRequest, key: IdempotencyKey | None = None) -> Admitted:
        try:
            admitted = await self._admit(request, key)
        except (NoSlot, PoolDrained, ShuttingDown):
            self._telemetry.refused(request.platform)
            raise
        self._telemetry.admitted(admitted)
        return admitted

    async def _admit(self, request: BotRequest, key: IdempotencyKey | None) -> Admitted:
        if self._closed:
            raise ShuttingDown
        parameters = self._parameters(request, key)
        row = await self._database.fetch_one("admit_to_idle_slot", parameters)
        if row is not None:
            return self._admitted_warm(row)
        if key is not None and (earlier := await self._replay(key)) is not None:
            return earlier
        admitted = await self._admit_by_queue(request, parameters)
        if admitted is None:
            # The key was taken between the two looks. A new statement sees who has it.
            assert key is not None
            admitted = await self._replay(key)
            if admitted is None:
                return await self._admit(request, key)
        return admitted

    async def find(self, bot_id: BotId) -> Admitted:
        """A bot as it is now, as the answer to its request was."""
        row = await self._database.fetch_one("get_bot", {"bot_id": bot_id})
        if row is None:
            raise NotFound("bot", bot_id)
        return await self._with_estimate(row)

    async def _admit_by_queue(
        self, request: BotRequest, parameters: Mapping[str, Any]
    ) -> Admitted | None:
        platform = request.platform

        async def work(transaction: Transaction) -> tuple[dict[str, Any] | None, list[Rows]]:
            _, pools, entered, *matched, settled = await transaction.send(
                lock(platform),
                ("find_pool", {"platform": platform}),
                ("enqueue_bot", parameters),
                *match_calls(platform),
                ("settle_newcomer", {}),
            )
            if not pools:
                raise UnknownPlatform(f"There is no pool {platform}.")
            if pools[0]["drained_at"] is not None:
                raise PoolDrained(platform)
            if not entered:
                return None, matched
            if settled[0]["status"] == BotStatus.QUEUED and request.queue_timeout_ms == 0:
                raise NoSlot(platform, retry_after_s=_RETRY_AFTER_S)
            return settled[0], matched

        row, matched = await self._database.transact(work)
        self._matcher.matched(matched)
        if row is None:
            return None
        if row["status"] == BotStatus.QUEUED:
            journal.bot_moved(
                bot_id=row["id"],
                pool=platform,
                old=BotStatus.PENDING,
                new=BotStatus.QUEUED,
                correlation_id=row["correlation_id"],
                reason="no slot was free",
            )
        return await self._with_estimate(row)

    async def _replay(self, key: IdempotencyKey) -> Admitted | None:
        found = await self._database.fetch_one(
            "find_idempotent_bot",
            {
                "api_key_id": key.api_key_id,
                "idempotency_key": key.key,
                "idempotency_days": self._policy.idempotency_days,
            },
        )
        if found is None:
            return None
        if found["body_hash"] != key.body_hash:
            raise IdempotencyConflict(key.key)
        admitted = await self.find(found["bot_id"])
        return Admitted(
            bot=admitted.bot,
            position=admitted.position,
            estimated_wait_ms=admitted.estimated_wait_ms,
            replayed=True,
        )

    async def _with_estimate(self, row: dict[str, Any]) -> Admitted:
        position = row.pop("position")
        bot = to_bot(row)
        if bot.status is not BotStatus.QUEUED or position is None:
            return Admitted(bot=bot)
        wait_ms = await self._estimates.wait_ms(bot.platform, position)
        return Admitted(bot=bot, position=position, estimated_wait_ms=wait_ms)

    def _parameters(self, request: BotRequest, key: IdempotencyKey | None) -> dict[str, Any]:
        return {
            "platform": request.platform,
            "meeting_url": request.meeting_url,
            "bot_display_name": request.bot_display_name,
            "bot_data": dict(request.bot_data),
            "priority": request.priority,
            "queue_timeout_ms": request.queue_timeout_ms,
            "correlation_id": request.correlation_id,
            "api_key_id": key.api_key_id if key else None,
            "idempotency_key": key.key if key else None,
            "body_hash": key.body_hash if key else None,
            "idempotency_days": self._policy.idempotency_days,
        }

    def _admitted_warm(self, row: dict[str, Any]) -> Admitted:
        slot_id = row.pop("slot_id")
        bot = to_bot(row)
        journal.assigned(
            {
                "slot_id": slot_id,
                "slot_name": bot.slot_name,
                "container_id": bot.container_id,
                "bot_id": bot.id,
                "correlation_id": bot.correlation_id,
            },
            reason="assigned",
        )
        self._telemetry.assigned(bot.platform, warm=bot.container_id is not None)
        self._wakeups.slots_due()
        return Admitted(bot=bot)
