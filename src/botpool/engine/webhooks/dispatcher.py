"""Sends the due deliveries of all webhooks, from any replica.

Each webhook has its own task in a replica, which leases a few deliveries, sends them at the same
time and stores the results, until none is due. A slow endpoint delays only its own task. The lease
of a delivery ends after its request's timeout: if this replica dies, another one sends the event
again, with the same id.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from botpool.domain.webhooks import (
    DISABLED_AFTER_DAYS,
    PAUSE_S,
    PAUSED_AFTER_FAILURES,
    Answer,
    DeliveryStatus,
    Verdict,
    judge,
)
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.clock import loop_time
from botpool.engine.webhooks.outbox import Outbox
from botpool.engine.webhooks.sender import MAX_CONNECTIONS, Sender
from botpool.store import webhooks as statements
from botpool.store.database import Database

_log = structlog.get_logger()
AT_ONCE = 8
"""How many requests of one webhook a replica sends at the same time."""
MAX_TASKS = MAX_CONNECTIONS // AT_ONCE
"""How many webhooks a replica serves at the same time."""
LEASE_MARGIN_S = 15.0
_GONE = "The endpoint answered 410: it wants no more events."
_FAILING = f"All attempts failed for {DISABLED_AFTER_DAYS} days."


class Dispatcher:
    """Reads history for webhooks and sends their deliveries."""

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        outbox: Outbox,
        sender: Sender,
        *,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._outbox = outbox
        self._sender = sender
        self._draw = draw
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._statements = asyncio.Semaphore(2)
        """Webhooks use few connections to the database, however many endpoints answer at once."""
        self.wake = asyncio.Event()

    @property
    def lease_s(self) -> float:
        """How long an attempt excludes another one: its timeout and a margin."""
        return self._sender.timeout_s + LEASE_MARGIN_S

    @property
    def sending(self) -> int:
        """The number of webhooks to which this replica sends now."""
        return len(self._tasks)

    async def run(self) -> bool:
        """Read new history and start a task for each webhook with due deliveries.

        Returns False if there is no webhook.
        """
        found = await self._outbox.find_work()
        work = [each for each in found if each.reads or each.sends or each.is_restored]
        if any(each.is_restored for each in work):
            await self._outbox.restore_cursors()
            self.wake.set()
            return True
        for each in work:
            # One batch a round: webhooks read in turn, and none beyond its limit of deliveries.
            if each.reads and await self._outbox.read(each.id):
                self.wake.set()
        for each in work:
            if each.id not in self._tasks and len(self._tasks) < MAX_TASKS:
                self._tasks[each.id] = asyncio.create_task(self._serve(each.id))
        return bool(found)

    async def settle(self) -> None:
        """Wait until the tasks that run have ended."""
        await asyncio.gather(*self._tasks.values())

    async def stop(self) -> None:
        """Cancel all requests. Their leases end, and another replica repeats them."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.close()

    async def _serve(self, webhook_id: int) -> None:
        """Send deliveries of one webhook until none is due."""
        try:
            while await self._send_due(webhook_id):
                pass
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("webhook.failed", webhook=webhook_id)
        finally:
            self._tasks.pop(webhook_id, None)

    async def _send_due(self, webhook_id: int) -> bool:
        asked_at = loop_time()
        async with self._statements:
            leased = await statements.lease_webhook_deliveries(
                self._database,
                webhook_id=webhook_id,
                limit=AT_ONCE,
                paused_after=PAUSED_AFTER_FAILURES,
                lease_s=self.lease_s,
            )
        if loop_time() - asked_at > LEASE_MARGIN_S:
            return bool(leased)  # A request could outlive its lease: leave it to the next attempt.
        answers = await asyncio.gather(*map(self._send, leased))
        if leased:
            await self._record(webhook_id, leased, answers)
        return bool(leased)

    async def _send(self, delivery: statements.LeasedDelivery) -> Answer:
        return await self._sender.send(
            delivery.url,
            delivery.event_id,
            delivery.payload,
            (delivery.sealed_secret, delivery.former_sealed_secret),
        )

    async def _record(
        self,
        webhook_id: int,
        leased: list[statements.LeasedDelivery],
        answers: list[Answer],
    ) -> None:
        verdicts = [
            judge(answer, attempts=delivery.attempts, random=self._draw)
            for delivery, answer in zip(leased, answers, strict=True)
        ]
        for delivery, answer, verdict in zip(leased, answers, verdicts, strict=True):
            self._report(webhook_id, delivery, answer, verdict)
        recorded = statements.record_attempts.statement(
            webhook_id=webhook_id,
            ids=[each.id for each in leased],
            attempts=[each.attempts for each in leased],
            statuses=[each.status.value for each in verdicts],
            delays_ms=[
                None if each.delay_s is None else round(each.delay_s * 1000) for each in verdicts
            ],
            response_statuses=[each.status for each in answers],
            response_bodies=[each.body for each in answers],
            problems=[each.problem for each in answers],
            durations_ms=[each.duration_ms for each in answers],
            pause_s=max((each.pause_s for each in verdicts if each.pause_s), default=None),
            paused_after=PAUSED_AFTER_FAILURES,
            failing_pause_s=PAUSE_S * (1 + self._draw() / 10),
            is_gone=any(each.disables for each in verdicts),
            gone_reason=_GONE,
            failing_reason=_FAILING,
            disabled_after_days=DISABLED_AFTER_DAYS,
        )
        async with self._statements:
            await self._database.commit(
                [statements.lock_webhook.statement(webhook_id=webhook_id), recorded]
            )
        if recorded.result is not None:
            self._metrics.webhook_disabled()
            _log.warning("webhook.disabled", webhook=webhook_id, reason=recorded.result)

    def _report(
        self,
        webhook_id: int,
        delivery: statements.LeasedDelivery,
        answer: Answer,
        verdict: Verdict,
    ) -> None:
        retried = verdict.status is DeliveryStatus.PENDING
        self._metrics.webhook_attempted("retried" if retried else verdict.status.value)
        if not answer.is_success:
            _log.info(
                "webhook.attempt_failed",
                webhook=webhook_id,
                event_id=delivery.event_id,
                attempt=delivery.attempts,
                problem=answer.problem,
            )
