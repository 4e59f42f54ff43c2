"""Admission: put a new bot into an idle slot, or into the queue.

`Admission.admit` follows one order: if bots of the tenant wait in the pool, queue; else claim an
idle slot; else queue and match, which grows the pool if it may. A new bot never overtakes the queue
of its tenant, and no tenant at its quota keeps the bots of others from idle slots.

Concurrent requests for one pool are batched: requests that arrive while a statement runs share the
next one, in arrival order.

If the process dies before the commit, no bot was admitted and the caller got no response. After the
commit, the slot row holds the work and any replica continues it. A repeated request finds the bot
of the first one by its idempotency key, also while the first request is in progress: the second
waits at the unique index of the key. Without a key, a repeated request creates a second bot.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from botpool.domain import reasons
from botpool.domain.bots import AdmissionRequest, AdmittedBot, Bot, BotRequest, IdempotencyKey
from botpool.domain.errors import (
    DatabaseUnavailable,
    IdempotencyConflict,
    NoFreeSlot,
    NotFound,
    PoolDrained,
    QueueFull,
    ShuttingDown,
    TenantQueueFull,
    UnknownPool,
)
from botpool.domain.ids import BotId, PoolName, TenantId
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.admission.bot_requests import new_bot, new_handover
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher, Handler
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.bots import find_bot_tenant, find_idempotent_bot, get_bot
from botpool.store.database import Database, Transaction
from botpool.store.pools import find_pool, lock_pool
from botpool.store.query import Statement
from botpool.store.queue import (
    ClaimedSlot,
    EnqueuedBot,
    SettledBot,
    admit_to_idle_slots,
    enqueue_bots,
    new_bots,
    settle_new_bots,
)
from botpool.store.turns import refresh_turns

_MAX_BATCH = 64
"""Larger batches slow each request down: the joins of the statement are planned for few rows."""
_RETRY_AFTER_S = 5

T = TypeVar("T")
_Batchers: TypeAlias = dict[PoolName, Batcher[AdmissionRequest, T | None]]


class Admission:
    """Admits bots and answers repeated requests."""

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
        self._claims: _Batchers[ClaimedSlot] = {}
        self._queueings: _Batchers[SettledBot] = {}
        # Pools whose last match found no slot for a new bot of a tenant, which may also be at its
        # quota. A hint only: the statement that queues the next bot checks it under the lock.
        self._full_pools: set[tuple[PoolName, TenantId]] = set()
        # New bots on their way into the queue: later bots of their tenant must not overtake them.
        self._being_queued = Counter[tuple[PoolName, TenantId]]()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Refuse further requests, because the installation shuts down."""
        self._closed = True

    async def admit(self, request: BotRequest, key: IdempotencyKey | None = None) -> AdmittedBot:
        """Admit a bot, or return the bot that an earlier request with this key created."""
        try:
            return await self._admit(AdmissionRequest(bot=request, key=key))
        except (NoFreeSlot, PoolDrained, QueueFull, ShuttingDown, TenantQueueFull):
            self._metrics.refused(request.pool_name)
            raise

    async def find(self, bot_id: BotId, *, tenant_id: TenantId | None = None) -> AdmittedBot:
        """Return a bot as it is now, with its position and estimate while it is queued.

        With a tenant, bots of other tenants do not exist.
        """
        found = await get_bot(self._database, bot_id=bot_id, tenant_id=tenant_id)
        if found is None:
            raise NotFound("bot", bot_id)
        if found.bot.status is not BotStatus.QUEUED or found.position is None:
            return AdmittedBot(
                bot=found.bot, progress=found.progress, last_media_at=found.last_media_at
            )
        return await self._with_estimate(found.bot, found.position)

    async def tenant_of(self, bot_id: BotId) -> TenantId:
        """Return the tenant that owns a bot."""
        tenant_id = await find_bot_tenant(self._database, bot_id=bot_id)
        if tenant_id is None:
            raise NotFound("bot", bot_id)
        return tenant_id

    async def _admit(self, request: AdmissionRequest) -> AdmittedBot:
        if self._closed:
            raise ShuttingDown
        pool_name, key = request.bot.pool_name, request.key
        claims = self._batcher(self._claims, pool_name, self._claim, max_in_flight=2)
        # One batch at a time, so that the queue follows the order of arrival.
        queueings = self._batcher(self._queueings, pool_name, self._enqueue, max_in_flight=1)
        pool_and_tenant = _pool_and_tenant(request)
        if not self._being_queued[pool_and_tenant] and pool_and_tenant not in self._full_pools:
            claimed = await _submit(claims, self._claim, request, batch=key is None)
            if claimed is not None:
                return AdmittedBot(bot=new_bot(request, claimed))
        if key is not None and (earlier := await self.replay(request)) is not None:
            return earlier
        self._being_queued[pool_and_tenant] += 1
        try:
            settled = await _submit(queueings, self._enqueue, request, batch=request.can_batch)
        except QueueFull:
            # A request with the same key may have been queued since `replay`.
            if key is not None and (earlier := await self.replay(request)) is not None:
                return earlier
            raise
        finally:
            self._being_queued[pool_and_tenant] -= 1
            if not self._being_queued[pool_and_tenant]:
                del self._being_queued[pool_and_tenant]
        if settled is not None:
            return await self._report_queued(request, settled)
        # Another request took the key after `replay` read it. A new statement finds its bot.
        return await self.replay(request) or await self._admit(request)

    def _batcher(
        self,
        batchers: _Batchers[T],
        pool_name: PoolName,
        handler: "Handler[AdmissionRequest, T | None]",
        *,
        max_in_flight: int,
    ) -> Batcher[AdmissionRequest, T | None]:
        """Return the batcher of a pool, created at its first request."""
        if (batcher := batchers.get(pool_name)) is None:
            batcher = batchers[pool_name] = Batcher(
                f"admit {pool_name}",
                handler,
                max_batch=_MAX_BATCH,
                max_in_flight=max_in_flight,
                is_idle=self._database.is_idle,
            )
        return batcher

    async def _claim(self, requests: Sequence[AdmissionRequest]) -> list[ClaimedSlot | None]:
        """Admit bots of one pool to its idle slots; None for a request that got none."""
        claimed = await admit_to_idle_slots(
            self._database,
            idempotency_days=self._policy.idempotency_days,
            **new_bots(requests),
        )
        if claimed:
            # In a burst, one lease for several batches: admissions need the database meanwhile.
            starts = [slot for slot in claimed if slot.poll_owner is None]
            if starts and len(requests) > 1:
                self._wakeups.wake_reconcilers_soon()
            elif starts:
                self._wakeups.wake_reconcilers()
            warm = sum(slot.container_id is not None for slot in claimed)
            pool_name = requests[0].bot.pool_name
            self._metrics.claimed(pool_name, warm=warm, cold=len(claimed) - warm)
            # Later callbacks, because an exception here would make the batcher repeat the
            # committed statement. They still run before the callers get their results.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._hand_over, claimed, requests)
            loop.call_soon(_log_claims, claimed)
        by_number = {slot.n: slot for slot in claimed}
        return [by_number.get(n) for n in range(1, len(requests) + 1)]

    def _hand_over(
        self, claimed: Sequence[ClaimedSlot], requests: Sequence[AdmissionRequest]
    ) -> None:
        """Give new bots to the standbys that wait for them."""
        self._wakeups.handover_push.push_new_bots(
            (new_handover(slot, requests[slot.n - 1]), slot.poll_owner)
            for slot in claimed
            if slot.poll_owner is not None
        )

    async def _enqueue(
        self, requests: Sequence[AdmissionRequest]
    ) -> list[SettledBot | Exception | None]:
        """Queue bots of one pool and match; None for a request whose key is taken."""
        pool_name = requests[0].bot.pool_name
        expects_full = all(_pool_and_tenant(request) in self._full_pools for request in requests)
        if expects_full and all(request.can_batch for request in requests):
            settled = await self._enqueue_in_full_pool(pool_name, requests)
            if any(settled):
                return settled
        return await self._enqueue_and_match(pool_name, requests)

    async def _enqueue_in_full_pool(
        self, pool_name: PoolName, requests: Sequence[AdmissionRequest]
    ) -> list[SettledBot | Exception | None]:
        """Queue the bots without a match; all None if the pool is not full any more."""
        lock = lock_pool.statement(pool_name=pool_name)
        enqueue = self._enqueue_statement(requests, match_follows=False)
        settle = settle_new_bots.statement()
        await self._database.commit([lock, enqueue, settle])
        await self._begin_turns(pool_name, enqueue.result)
        return self._by_request(requests, enqueue.result, settle.result)

    async def _enqueue_and_match(
        self, pool_name: PoolName, requests: Sequence[AdmissionRequest], *, with_turns: bool = False
    ) -> list[SettledBot | Exception | None]:
        """Queue the bots and match; `with_turns` refreshes the turns of the tenants in between."""
        lock = lock_pool.statement(pool_name=pool_name)
        pool = find_pool.statement(pool_name=pool_name)
        enqueue = self._enqueue_statement(requests, match_follows=True)
        turns = [refresh_turns.statement(pool_name=pool_name)] if with_turns else []
        match = self._matcher.prepare_match(pool_name)
        settle = settle_new_bots.statement()
        statements: list[Statement[Any]] = [lock, pool, enqueue]
        statements += [*turns, *match.statements, settle]
        if all(request.bot.queue_timeout_ms > 0 for request in requests):
            await self._database.commit(statements)
        else:
            try:
                await self._commit_unless_queued(statements, settle, pool_name)
            except NoFreeSlot:
                if with_turns or not any(bot.begins_turn for bot in enqueue.result):
                    raise
                # Bots of other tenants wait, perhaps for their quota: the turns decide.
                return await self._enqueue_and_match(pool_name, requests, with_turns=True)
        tenants = {_pool_and_tenant(request) for request in requests}
        if not self._matcher.report(match) and enqueue.result:
            self._full_pools |= tenants
        else:
            self._full_pools -= tenants
        if not with_turns:
            await self._begin_turns(pool_name, enqueue.result)
        if pool.result is None:
            return [UnknownPool(f"There is no pool {pool_name}.") for _ in requests]
        if pool.result.drained_at is not None:
            return [PoolDrained(pool_name) for _ in requests]
        return self._by_request(requests, enqueue.result, settle.result)

    def _by_request(
        self,
        requests: Sequence[AdmissionRequest],
        enqueued: Sequence[EnqueuedBot],
        settled: Sequence[SettledBot],
    ) -> list[SettledBot | Exception | None]:
        """Return the bots in the order of their requests; None for a request without a bot."""
        limit = self._policy.limits.queue_length
        settled_by_id = {bot.bot_id: bot for bot in settled}
        by_number = {bot.n: bot for bot in enqueued}

        def result(n: int, request: AdmissionRequest) -> SettledBot | Exception | None:
            if (bot := by_number.get(n)) is None:
                return None
            if bot.bot_id is None:
                return QueueFull.of(request.bot.pool_name, limit)
            found = settled_by_id[bot.bot_id]
            if found.exceeded_quota is not None:
                return TenantQueueFull.of(request.bot.caller.tenant, found.exceeded_quota)
            return found

        return [result(n, request) for n, request in enumerate(requests, 1)]

    async def _commit_unless_queued(
        self,
        statements: Sequence[Statement[Any]],
        settle: Statement[list[SettledBot]],
        pool_name: PoolName,
    ) -> None:
        """Roll back if the match gave the bot no slot: its request does not allow queueing."""

        async def run(transaction: Transaction) -> None:
            await transaction.run(statements)
            if any(bot.assigned_at is None for bot in settle.result):
                raise NoFreeSlot(pool_name, retry_after_s=_RETRY_AFTER_S)

        await self._database.transact(run)

    async def _begin_turns(self, pool_name: PoolName, enqueued: Sequence[EnqueuedBot]) -> None:
        """Give turns to tenants that begin to wait beside others. If it fails, the poll does it."""
        if not any(bot.begins_turn for bot in enqueued):
            return
        with contextlib.suppress(DatabaseUnavailable):
            if await self._matcher.refresh_turns(pool_name):
                self._full_pools = {each for each in self._full_pools if each[0] != pool_name}

    def _enqueue_statement(
        self, requests: Sequence[AdmissionRequest], *, match_follows: bool
    ) -> Statement[list[EnqueuedBot]]:
        return enqueue_bots.statement(
            idempotency_days=self._policy.idempotency_days,
            max_length=self._policy.limits.queue_length,
            match_follows=match_follows,
            **new_bots(requests),
        )

    async def replay(self, request: AdmissionRequest) -> AdmittedBot | None:
        """Return the bot of an earlier request with this key; None if there is none."""
        key = request.key
        assert key is not None
        found = await find_idempotent_bot(
            self._database,
            api_key_id=request.bot.caller.key_id,
            idempotency_key=key.key,
            idempotency_days=self._policy.idempotency_days,
        )
        if found is None:
            return None
        if found.body_hash != key.body_hash:
            raise IdempotencyConflict(key.key)
        admitted = await self.find(found.bot_id)
        self._metrics.replayed(admitted.bot.pool_name)
        return replace(admitted, replayed=True)

    async def _report_queued(self, request: AdmissionRequest, settled: SettledBot) -> AdmittedBot:
        """Count and log a bot that went through the queue, and add its position."""
        bot = new_bot(request, settled)
        self._metrics.admitted(bot)
        if bot.status is not BotStatus.QUEUED:
            return AdmittedBot(bot=bot)
        event_log.bot_transition(
            bot_id=bot.id,
            pool=bot.pool_name,
            old=BotStatus.PENDING,
            new=BotStatus.QUEUED,
            correlation_id=bot.correlation_id,
            reason=settled.queued_reason or reasons.NO_FREE_SLOT,
        )
        position = settled.position
        if position is None:
            position = await self._estimates.position_behind_counted(
                bot.pool_name, bot.tenant, bot.priority
            )
        return await self._with_estimate(bot, position)

    async def _with_estimate(self, bot: Bot, position: int) -> AdmittedBot:
        wait_ms = await self._estimates.wait_ms(bot.pool_name, bot.tenant, position)
        return AdmittedBot(bot=bot, position=position, estimated_wait_ms=wait_ms)


async def _submit(
    batcher: Batcher[AdmissionRequest, T | None],
    handler: "Handler[AdmissionRequest, T | None]",
    request: AdmissionRequest,
    *,
    batch: bool,
) -> T | None:
    """Pass a request to the batcher, or to its handler alone, and return its result."""
    if batch:
        return await batcher.submit(request)
    (result,) = await handler([request])
    if isinstance(result, Exception):
        raise result
    return result


def _pool_and_tenant(request: AdmissionRequest) -> tuple[PoolName, TenantId]:
    return request.bot.pool_name, request.bot.caller.tenant_id


def _log_claims(claimed: Sequence[ClaimedSlot]) -> None:
    event_log.bots_assigned(claimed, reason=reasons.ASSIGNED)
