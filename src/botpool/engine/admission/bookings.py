"""Bookings: create, move and change bots that are scheduled to join at a time.

The transaction that creates or moves a bot takes the pool's booking lock in one statement; the next
finds the highest overlap in the bot's period and books. So two requests that compete for the last
free capacity get exactly one reservation. A booking that starts within the pool's `hold_s` also
takes the pool's lock and holds its slot, or it is not reserved.

If the process dies before the commit, nothing was booked and the caller got no response. After the
commit, the booking is the work: the poll of any replica (`DueBots`) finds the bot due. A repeated
request finds the bot of the first one by its idempotency key.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from botpool.domain.bookings import MAX_DAYS_AHEAD, nearest_free_join, on_time_probability
from botpool.domain.bots import AdmissionRequest, AdmittedBot, Bot, BotRequest, IdempotencyKey
from botpool.domain.callers import Caller
from botpool.domain.errors import (
    BotHasStarted,
    JoinTimeRefused,
    NoReservation,
    PoolDrained,
    QueueFull,
    ShuttingDown,
)
from botpool.domain.ids import BotId
from botpool.engine.admission.admission import Admission
from botpool.engine.admission.due_bots import DueBots
from botpool.engine.admission.matcher import Match, Matcher
from botpool.engine.service import Service
from botpool.store.bookings import (
    BookedBot,
    book_bot,
    change_waiting_bot,
    list_bookings,
    lock_bookings,
    measure_on_time,
    measure_pool_times,
    measure_starts_in_time,
    move_bot,
    record_prediction,
    unreserve_booking,
)
from botpool.store.database import Transaction
from botpool.store.pools import lock_pool
from botpool.store.query import Statement

_SEARCHED = timedelta(days=2)
"""How far around the requested time Botpool looks for a free one."""
_MAX_BOOKINGS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BotUpdate:
    """The requested changes of a bot; None keeps a value."""

    join_at: datetime | None = None
    priority: int | None = None
    bot_display_name: str | None = None

    @property
    def needs_waiting_bot(self) -> bool:
        """Whether a bot that has its slot refuses these changes."""
        return self.priority is not None or self.bot_display_name is not None


class _TooLate(Exception):
    """Rolls back the changes of a bot that cannot be changed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookings(Service):
    """Books scheduled bots."""

    admission: Admission
    matcher: Matcher
    due_bots: DueBots

    async def book(self, request: BotRequest, key: IdempotencyKey | None = None) -> AdmittedBot:
        """Create a scheduled bot, or return the bot of an earlier request with this key."""
        if self.admission.is_closed:
            raise ShuttingDown
        if key is not None:
            admission_request = AdmissionRequest(bot=request, key=key)
            if (earlier := await self.admission.replay(admission_request)) is not None:
                return earlier
        await measure_pool_times(self.database, pool_name=request.pool_name)
        matches: list[Match] = []

        async def work(transaction: Transaction) -> BookedBot | None:
            matches.clear()
            lock = lock_bookings.statement(
                pool_name=request.pool_name, tenant_id=request.caller.tenant_id
            )
            book = self._book_statement(request, key)
            await transaction.run([lock, book])
            booked = book.result
            if booked is not None and booked.bot_id is not None:
                assert request.join_at is not None
                await self._hold_and_predict(transaction, request, request.join_at, booked, matches)
            return booked

        booked = await self.database.transact(work)
        if booked is None:
            # Another request took the key after `replay` read it.
            assert key is not None
            return await self.admission.replay(
                AdmissionRequest(bot=request, key=key)
            ) or await self.book(request, key)
        if booked.bot_id is None:
            self.metrics.refused(request.pool_name)
            await self._refuse(request, booked)
            raise AssertionError("unreachable: every refusal raises")
        for match in matches:
            self.matcher.report(match)
        self.matcher.expect_bookings(request.pool_name)
        self.metrics.scheduled(request.pool_name, reserved=booked.reserved)
        if booked.is_due:
            await self.due_bots.start_due(request.pool_name)
        return await self.admission.find(booked.bot_id)

    async def update(self, bot_id: BotId, changes: BotUpdate, caller: Caller) -> AdmittedBot:
        """Change a bot before its start; raises BotHasStarted if it is too late."""
        bot = (await self.admission.find(bot_id, tenant_id=caller.visible_tenant)).bot
        if changes.join_at is not None:
            await self._move(bot, changes.join_at, changes)
        elif changes.needs_waiting_bot:
            changed = await change_waiting_bot(
                self.database,
                bot_id=bot_id,
                priority=changes.priority,
                bot_display_name=changes.bot_display_name,
            )
            if changed is None:
                raise BotHasStarted.of((await self.admission.find(bot_id)).bot)
        return await self.admission.find(bot_id)

    async def _move(self, bot: Bot, join_at: datetime, changes: BotUpdate) -> None:
        """Move a bot, and make the other changes in the same transaction: all of them or none."""
        matches: list[Match] = []
        tenant_id = await self.admission.tenant_of(bot.id)

        async def work(transaction: Transaction) -> BookedBot:
            matches.clear()
            lock = lock_bookings.statement(pool_name=bot.pool_name, tenant_id=tenant_id)
            await transaction.run([lock, lock_pool.statement(pool_name=bot.pool_name)])
            if changes.needs_waiting_bot:
                change = change_waiting_bot.statement(
                    bot_id=bot.id,
                    priority=changes.priority,
                    bot_display_name=changes.bot_display_name,
                )
                await transaction.run([change])
                if change.result is None:
                    raise _TooLate
            await transaction.run([move := move_bot.statement(bot_id=bot.id, join_at=join_at)])
            if (moved := move.result) is None:
                raise _TooLate
            await self._hold_and_predict(transaction, bot, join_at, moved, matches)
            return moved

        await measure_pool_times(self.database, pool_name=bot.pool_name)
        try:
            moved = await self.database.transact(work)
        except _TooLate:
            current = (await self.admission.find(bot.id)).bot
            if current.status in BotHasStarted.STARTED:
                raise BotHasStarted.of(current) from None
            raise JoinTimeRefused(MAX_DAYS_AHEAD) from None
        for match in matches:
            self.matcher.report(match)
        self.matcher.expect_bookings(bot.pool_name)
        if moved.is_due:
            await self.due_bots.start_due(bot.pool_name)

    async def _hold_and_predict(
        self,
        transaction: Transaction,
        bot: BotRequest | Bot,
        join_at: datetime,
        booked: BookedBot,
        matches: list[Match],
    ) -> None:
        """Hold the slot of a booking that starts soon, and predict whether the bot is on time."""
        assert booked.bot_id is not None
        reserved = booked.reserved
        if reserved and booked.within_hold:
            match = self.matcher.prepare_booked_match(bot.pool_name)
            lock = lock_pool.statement(pool_name=bot.pool_name)
            await transaction.run([lock, *match.statements])
            matches.append(match)
            hold = match.hold.result
            if hold is None or hold.held < hold.needed:
                reserved = False
                if isinstance(bot, BotRequest) and bot.require_reservation:
                    raise await self._no_reservation(bot, booked)
                await transaction.run([unreserve_booking.statement(bot_id=booked.bot_id)])
        starts = measure_starts_in_time.statement(
            pool_name=bot.pool_name, join_at=join_at, starts_at=booked.starts_at
        )
        record = measure_on_time.statement(pool_name=bot.pool_name)
        await transaction.run([starts, record])
        probability = on_time_probability(
            reserved=reserved,
            starts_in_time=starts.result.starts_in_time,
            free_share=starts.result.free_share,
            record=record.result,
        )
        await transaction.run(
            [record_prediction.statement(bot_id=booked.bot_id, probability=probability)]
        )

    def _book_statement(
        self, request: BotRequest, key: IdempotencyKey | None
    ) -> Statement[BookedBot | None]:
        assert request.join_at is not None
        return book_bot.statement(
            pool_name=request.pool_name,
            tenant_id=request.caller.tenant_id,
            api_key_id=request.caller.key_id,
            meeting_url=request.meeting_url,
            bot_display_name=request.bot_display_name,
            bot_data=json.dumps(request.bot_data),
            priority=request.priority,
            queue_timeout_ms=request.queue_timeout_ms,
            correlation_id=request.correlation_id,
            traceparent=request.traceparent,
            join_at=request.join_at,
            expected_duration_ms=request.expected_duration_ms,
            require_reservation=request.require_reservation,
            idempotency_key=key.key if key else None,
            body_hash=key.body_hash if key else None,
            idempotency_days=self.policy.idempotency_days,
            max_scheduled=self.policy.limits.queue_length,
        )

    async def _refuse(self, request: BotRequest, booked: BookedBot) -> None:
        match booked.refusal:
            case "drained":
                raise PoolDrained(request.pool_name)
            case "past" | "far":
                raise JoinTimeRefused(MAX_DAYS_AHEAD)
            case "full":
                raise QueueFull.of_schedule(request.pool_name, self.policy.limits.queue_length)
            case "tenant":
                raise NoReservation(request.pool_name, None, tenant=request.caller.tenant)
            case _:
                raise await self._no_reservation(request, booked)

    async def _no_reservation(self, request: BotRequest, booked: BookedBot) -> NoReservation:
        assert request.join_at is not None
        bookings = await list_bookings(
            self.database,
            pool_name=request.pool_name,
            after=booked.starts_at - _SEARCHED,
            before=booked.ends_at + _SEARCHED,
            limit=_MAX_BOOKINGS,
        )
        free = nearest_free_join(
            bookings,
            join_at=request.join_at,
            lead=request.join_at - booked.starts_at,
            duration=booked.ends_at - request.join_at,
            limit=booked.reservable_slots,
            earliest=booked.created_at + (request.join_at - booked.starts_at),
        )
        return NoReservation(request.pool_name, free)
