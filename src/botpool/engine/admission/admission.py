"""Admitting bots: to idle slots if nobody waits, else to the queue and the matcher.

Both are gathered by pool: whoever waits while a statement is under way goes in the next, in the
order of arrival.

What happens if the process dies: before the commit nothing was admitted and the caller got no
answer; after it, the slot row says what is wanted and any replica carries on. If the request comes
twice, the idempotency key finds the first bot, also while the first request is under way: the
second waits at the key's unique index. Without a key, a second request is a second bot.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from botpool.domain.errors import (
    IdempotencyConflict,
    NoSlot,
    NotFound,
    PoolDrained,
    ShuttingDown,
    UnknownPlatform,
)
from botpool.domain.ids import BotId, Platform
from botpool.domain.policy import Policy
from botpool.domain.records import Admitted, Bot, BotRequest, IdempotencyKey
from botpool.domain.states import BotStatus
from botpool.engine.admission.bot_requests import Wish, columns, to_new_bot
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher, lock, match_calls
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Telemetry
from botpool.engine.runtime.batching import Gathering
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Call, Database, Rows, Transaction
from botpool.store.rows import to_bot

_AT_ONCE = 64
"""More would cost each more: the statement's joins are planned for a few."""
_RETRY_AFTER_S = 5

_Row: TypeAlias = Mapping[str, Any]
_Counter: TypeAlias = Gathering[Wish, _Row | None]


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
        self._claiming: dict[Platform, _Counter] = {}
        self._enqueueing: dict[Platform, _Counter] = {}
        # Pools whose last match had no slot for a newcomer: the next one is not expected to have
        # one. Only a guess, which the statement that queues makes sure of.
        self._full: set[Platform] = set()
        self._closed = False

    def close(self) -> None:
        """Admit nobody any more: everything is about to end."""
        self._closed = True

    async def admit(self, request: BotRequest, key: IdempotencyKey | None = None) -> Admitted:
        try:
            return await self._admit(Wish(request=request, key=key))
        except (NoSlot, PoolDrained, ShuttingDown):
            self._telemetry.refused(request.platform)
            raise

    async def _admit(self, wish: Wish) -> Admitted:
        if self._closed:
            raise ShuttingDown
        platform, key = wish.request.platform, wish.key
        claiming = self._counter(self._claiming, platform, self._claim, lanes=2)
        # One lane: the order of arrival is the order of the queue.
        enqueueing = self._counter(self._enqueueing, platform, self._enqueue, lanes=1)
        # Who is about to be queued came before us, and is not overtaken.
        if not enqueueing.is_busy and platform not in self._full:
            row = await (claiming.ask(wish) if key is None else _alone(self._claim, wish))
            if row is not None:
                return Admitted(bot=to_new_bot(wish, row))
        if key is not None and (earlier := await self._replay(key)) is not None:
            return earlier
        row = await (enqueueing.ask(wish) if wish.may_travel else _alone(self._enqueue, wish))
        if row is not None:
            return await self._enqueued(wish, row)
        # The key was taken between the two looks. A new statement sees who has it.
        assert key is not None
        return await self._replay(key) or await self._admit(wish)

    def _counter(
        self,
        counters: dict[Platform, _Counter],
        platform: Platform,
        work: Callable[[Sequence[Wish]], Any],
        *,
        lanes: int,
    ) -> _Counter:
        """The counter at which the bots of that pool are admitted together."""
        if (counter := counters.get(platform)) is None:
            counter = counters[platform] = Gathering(
                f"admit {platform}",
                work,
                at_once=_AT_ONCE,
                lanes=lanes,
                is_idle=self._database.is_idle,
            )
        return counter

    async def _claim(self, wishes: Sequence[Wish]) -> list[_Row | None]:
        """Admit bots of one pool to its idle slots; None for whom there was none."""
        rows = await self._database.fetch("admit_to_idle_slots", self._columns(wishes))
        if rows:
            self._wakeups.slots_due()
            warm = sum(row["container_id"] is not None for row in rows)
            platform = wishes[0].request.platform
            self._telemetry.claimed(platform, warm=warm, cold=len(rows) - warm)
            # Apart from the work, which is committed and would be done again if this failed; its
            # turn still comes before that of those who wait for their answers.
            asyncio.get_running_loop().call_soon(_tell_claimed, wishes, rows)
        return _in_order(rows, len(wishes))

    async def _enqueue(self, wishes: Sequence[Wish]) -> list[_Row | Exception | None]:
        """Queue bots of one pool and serve its queue; None for whom the key was taken."""
        platform = wishes[0].request.platform
        if platform in self._full and all(wish.may_travel for wish in wishes):
            _, entered, settled = await self._database.atomically(
                lock(platform),
                ("enqueue_bots", self._columns(wishes) | {"match_follows": False}),
                ("settle_newcomers", {}),
            )
            if entered:
                return [*_in_order(_together(entered, settled), len(wishes))]
        return await self._enqueue_and_match(platform, wishes)

    async def _enqueue_and_match(
        self, platform: Platform, wishes: Sequence[Wish]
    ) -> list[_Row | Exception | None]:
        calls: list[Call] = [
            lock(platform),
            ("find_pool", {"platform": platform}),
            ("enqueue_bots", self._columns(wishes) | {"match_follows": True}),
            *match_calls(platform),
            ("settle_newcomers", {}),
        ]
        if all(wish.request.queue_timeout_ms > 0 for wish in wishes):
            results = await self._database.atomically(*calls)
        else:
            results = await self._database.transact(_or_nothing(platform, calls))
        _, pools, entered, *matched, settled = results
        if not self._matcher.matched(matched) and entered:
            self._full.add(platform)
        else:
            self._full.discard(platform)
        if not pools:
            return [UnknownPlatform(f"There is no pool {platform}.") for _ in wishes]
        if pools[0]["drained_at"] is not None:
            return [PoolDrained(platform) for _ in wishes]
        return [*_in_order(_together(entered, settled), len(wishes))]

    async def find(self, bot_id: BotId) -> Admitted:
        """A bot as it is now, as the answer to its request was."""
        row = await self._database.fetch_one("get_bot", {"bot_id": bot_id})
        if row is None:
            raise NotFound("bot", bot_id)
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
        self._telemetry.replayed(admitted.bot.platform)
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
        return await self._queued(bot, position)

    async def _queued(self, bot: Bot, position: int) -> Admitted:
        wait_ms = await self._estimates.wait_ms(bot.platform, position)
        return Admitted(bot=bot, position=position, estimated_wait_ms=wait_ms)

    async def _enqueued(self, wish: Wish, row: _Row) -> Admitted:
        bot = to_new_bot(wish, row)
        self._telemetry.admitted(bot)
        if bot.status is not BotStatus.QUEUED:
            return Admitted(bot=bot)
        event_log.bot_moved(
            bot_id=bot.id,
            pool=bot.platform,
            old=BotStatus.PENDING,
            new=BotStatus.QUEUED,
            correlation_id=bot.correlation_id,
            reason="no slot was free",
        )
        position = row["position"]
        if position is None:
            position = await self._estimates.far_position(bot.platform, bot.priority)
        return await self._queued(bot, position)

    def _columns(self, wishes: Sequence[Wish]) -> dict[str, Any]:
        return columns(wishes, idempotency_days=self._policy.idempotency_days)


def _tell_claimed(wishes: Sequence[Wish], rows: Rows) -> None:
    """With the correlation ids, which the statement does not give back."""
    ids = [wish.request.correlation_id for wish in wishes]
    told = [{**row, "correlation_id": ids[row["n"] - 1]} for row in rows]
    event_log.assigned(told, reason="assigned")


async def _alone(work: Callable[[Sequence[Wish]], Any], wish: Wish) -> _Row | None:
    """Admit a bot without others: it may have to wait, or be undone."""
    (answer,) = await work([wish])
    if isinstance(answer, Exception):
        raise answer
    row: _Row | None = answer
    return row


def _or_nothing(platform: Platform, calls: Sequence[Call]) -> Callable[[Transaction], Any]:
    """Queue a bot that will not wait: if the match gives it no slot, nothing has happened."""

    async def work(transaction: Transaction) -> list[Rows]:
        results = await transaction.send(*calls)
        if any(row["status"] == BotStatus.QUEUED for row in results[-1]):
            raise NoSlot(platform, retry_after_s=_RETRY_AFTER_S)
        return results

    return work


def _together(entered: Rows, settled: Rows) -> Rows:
    """Bots as they entered the queue, and as they were left by its match."""
    by_id = {row["bot_id"]: row for row in settled}
    return [row | by_id[row["bot_id"]] for row in entered]


def _in_order(rows: Rows, count: int) -> list[_Row | None]:
    """The rows in the order of the wishes, which they name by `n`."""
    found = {row["n"]: row for row in rows}
    return [found.get(n) for n in range(1, count + 1)]
