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

from botpool.domain import reasons
from botpool.domain.errors import (
    IdempotencyConflict,
    NoFreeSlot,
    NotFound,
    PoolDrained,
    ShuttingDown,
    UnknownPool,
)
from botpool.domain.ids import BotId, PoolName
from botpool.domain.policy import Policy
from botpool.domain.records import AdmittedBot, Bot, BotRequest, IdempotencyKey
from botpool.domain.states import BotStatus
from botpool.engine.admission.bot_requests import AdmissionRequest, columns, to_new_bot
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher, lock, match_calls
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Call, Database, Rows, Transaction
from botpool.store.rows import to_bot, to_slot_change

_AT_ONCE = 64
"""More would cost each more: the statement's joins are planned for a few."""
_RETRY_AFTER_S = 5

_Row: TypeAlias = Mapping[str, Any]
_Counter: TypeAlias = Batcher[AdmissionRequest, _Row | None]


class Admission:
    def __init__(
        self,
        database: Database,
        wakeups: Wakeups,
        matcher: Matcher,
        estimates: Estimates,
        policy: Policy,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._wakeups = wakeups
        self._matcher = matcher
        self._estimates = estimates
        self._policy = policy
        self._metrics = metrics
        self._claiming: dict[PoolName, _Counter] = {}
        self._enqueueing: dict[PoolName, _Counter] = {}
        # Pools whose last match had no slot for a new bot. Only a guess: the statement that
        # enqueues verifies it under the pool lock.
        self._full: set[PoolName] = set()
        self._closed = False

    def close(self) -> None:
        """Admit nobody any more: everything is about to end."""
        self._closed = True

    async def admit(self, request: BotRequest, key: IdempotencyKey | None = None) -> AdmittedBot:
        try:
            return await self._admit(AdmissionRequest(request=request, key=key))
        except (NoFreeSlot, PoolDrained, ShuttingDown):
            self._metrics.refused(request.pool_name)
            raise

    async def _admit(self, wish: AdmissionRequest) -> AdmittedBot:
        if self._closed:
            raise ShuttingDown
        pool_name, key = wish.request.pool_name, wish.key
        claiming = self._counter(self._claiming, pool_name, self._claim, max_in_flight=2)
        # One lane: the order of arrival is the order of the queue.
        enqueueing = self._counter(self._enqueueing, pool_name, self._enqueue, max_in_flight=1)
        # Who is about to be queued came before us, and is not overtaken.
        if not enqueueing.is_busy and pool_name not in self._full:
            row = await (claiming.submit(wish) if key is None else _alone(self._claim, wish))
            if row is not None:
                return AdmittedBot(bot=to_new_bot(wish, row))
        if key is not None and (earlier := await self._replay(key)) is not None:
            return earlier
        row = await (enqueueing.submit(wish) if wish.can_batch else _alone(self._enqueue, wish))
        if row is not None:
            return await self._enqueued(wish, row)
        # The key was taken between the two looks. A new statement sees who has it.
        assert key is not None
        return await self._replay(key) or await self._admit(wish)

    def _counter(
        self,
        counters: dict[PoolName, _Counter],
        pool_name: PoolName,
        work: Callable[[Sequence[AdmissionRequest]], Any],
        *,
        max_in_flight: int,
    ) -> _Counter:
        """The counter at which the bots of that pool are admitted together."""
        if (counter := counters.get(pool_name)) is None:
            counter = counters[pool_name] = Batcher(
                f"admit {pool_name}",
                work,
                max_batch=_AT_ONCE,
                max_in_flight=max_in_flight,
                is_idle=self._database.is_idle,
            )
        return counter

    async def _claim(self, wishes: Sequence[AdmissionRequest]) -> list[_Row | None]:
        """Admit bots of one pool to its idle slots; None for whom there was none."""
        rows = await self._database.fetch("admit_to_idle_slots", self._columns(wishes))
        if rows:
            self._wakeups.slots_due()
            warm = sum(row["container_id"] is not None for row in rows)
            pool_name = wishes[0].request.pool_name
            self._metrics.claimed(pool_name, warm=warm, cold=len(rows) - warm)
            # Apart from the work, which is committed and would be done again if this failed; its
            # turn still comes before that of those who wait for their answers.
            asyncio.get_running_loop().call_soon(_tell_claimed, wishes, rows)
        return _in_order(rows, len(wishes))

    async def _enqueue(self, wishes: Sequence[AdmissionRequest]) -> list[_Row | Exception | None]:
        """Queue bots of one pool and serve its queue; None for whom the key was taken."""
        pool_name = wishes[0].request.pool_name
        if pool_name in self._full and all(wish.can_batch for wish in wishes):
            _, entered, settled = await self._database.atomically(
                lock(pool_name),
                ("enqueue_bots", self._columns(wishes) | {"match_follows": False}),
                ("settle_new_bots", {}),
            )
            if entered:
                return [*_in_order(_together(entered, settled), len(wishes))]
        return await self._enqueue_and_match(pool_name, wishes)

    async def _enqueue_and_match(
        self, pool_name: PoolName, wishes: Sequence[AdmissionRequest]
    ) -> list[_Row | Exception | None]:
        calls: list[Call] = [
            lock(pool_name),
            ("find_pool", {"pool_name": pool_name}),
            ("enqueue_bots", self._columns(wishes) | {"match_follows": True}),
            *match_calls(pool_name),
            ("settle_new_bots", {}),
        ]
        if all(wish.request.queue_timeout_ms > 0 for wish in wishes):
            results = await self._database.atomically(*calls)
        else:
            results = await self._database.transact(_or_nothing(pool_name, calls))
        _, pools, entered, *matched, settled = results
        if not self._matcher.matched(matched) and entered:
            self._full.add(pool_name)
        else:
            self._full.discard(pool_name)
        if not pools:
            return [UnknownPool(f"There is no pool {pool_name}.") for _ in wishes]
        if pools[0]["drained_at"] is not None:
            return [PoolDrained(pool_name) for _ in wishes]
        return [*_in_order(_together(entered, settled), len(wishes))]

    async def find(self, bot_id: BotId) -> AdmittedBot:
        """A bot as it is now, as the answer to its request was."""
        row = await self._database.fetch_one("get_bot", {"bot_id": bot_id})
        if row is None:
            raise NotFound("bot", bot_id)
        return await self._with_estimate(row)

    async def _replay(self, key: IdempotencyKey) -> AdmittedBot | None:
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
        self._metrics.replayed(admitted.bot.pool_name)
        return AdmittedBot(
            bot=admitted.bot,
            position=admitted.position,
            estimated_wait_ms=admitted.estimated_wait_ms,
            replayed=True,
        )

    async def _with_estimate(self, row: dict[str, Any]) -> AdmittedBot:
        position = row.pop("position")
        bot = to_bot(row)
        if bot.status is not BotStatus.QUEUED or position is None:
            return AdmittedBot(bot=bot)
        return await self._queued(bot, position)

    async def _queued(self, bot: Bot, position: int) -> AdmittedBot:
        wait_ms = await self._estimates.wait_ms(bot.pool_name, position)
        return AdmittedBot(bot=bot, position=position, estimated_wait_ms=wait_ms)

    async def _enqueued(self, wish: AdmissionRequest, row: _Row) -> AdmittedBot:
        bot = to_new_bot(wish, row)
        self._metrics.admitted(bot)
        if bot.status is not BotStatus.QUEUED:
            return AdmittedBot(bot=bot)
        event_log.bot_transitioned(
            bot_id=bot.id,
            pool=bot.pool_name,
            old=BotStatus.PENDING,
            new=BotStatus.QUEUED,
            correlation_id=bot.correlation_id,
            reason="no slot was free",
        )
        position = row["position"]
        if position is None:
            position = await self._estimates.far_position(bot.pool_name, bot.priority)
        return await self._queued(bot, position)

    def _columns(self, wishes: Sequence[AdmissionRequest]) -> dict[str, Any]:
        return columns(wishes, idempotency_days=self._policy.idempotency_days)


def _tell_claimed(wishes: Sequence[AdmissionRequest], rows: Rows) -> None:
    """With the correlation ids, which the statement does not give back."""
    ids = [wish.request.correlation_id for wish in wishes]
    told = [{**row, "correlation_id": ids[row["n"] - 1]} for row in rows]
    event_log.assigned(map(to_slot_change, told), reason=reasons.ASSIGNED)


async def _alone(
    work: Callable[[Sequence[AdmissionRequest]], Any], wish: AdmissionRequest
) -> _Row | None:
    """Admit a bot without others: it may have to wait, or be undone."""
    (answer,) = await work([wish])
    if isinstance(answer, Exception):
        raise answer
    row: _Row | None = answer
    return row


def _or_nothing(pool_name: PoolName, calls: Sequence[Call]) -> Callable[[Transaction], Any]:
    """Queue a bot that will not wait: if the match gives it no slot, nothing has happened."""

    async def work(transaction: Transaction) -> list[Rows]:
        results = await transaction.send(*calls)
        if any(row["status"] == BotStatus.QUEUED for row in results[-1]):
            raise NoFreeSlot(pool_name, retry_after_s=_RETRY_AFTER_S)
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
