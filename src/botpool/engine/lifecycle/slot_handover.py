"""Frees slots whose stop is confirmed and assigns them to queued bots, in one transaction.

Slots of one pool that become free while a transaction runs are freed together in the next one, each
behind its own fence, and one match assigns all of them. If the last match of a pool assigned
nothing, the next transaction leaves the match out; `free_slots` then frees only the slots after
which a match would change nothing, and the others are freed with a match.

After a crash before the commit, the slots are still `releasing` and the stop is repeated and
confirmed again; after the commit, they are free or have the next bot. A repeated release finds
another version and changes nothing.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from botpool.domain import reasons
from botpool.domain.fenced_slots import FencedSlot, ReleasableSlot
from botpool.domain.ids import BotId, PoolName, SlotId
from botpool.domain.states import FINAL, BotStatus, FailureCode, SlotStatus
from botpool.engine.admission.matcher import Matcher
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.pools import lock_pool
from botpool.store.query import Statement
from botpool.store.releases import (
    FreedSlot,
    RequeuedBot,
    fail_bots_without_attempts,
    free_slots,
    requeue_bots,
)
from botpool.store.standbys import end_standby, restart_cold

_MAX_BATCH = 64
"""A larger batch slows each of its items: the statement's joins are planned for a few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRelease:
    """The release of a slot whose stop is confirmed, as requested."""

    slot: ReleasableSlot
    container_gone: bool
    status: SlotStatus
    """The slot's status after the release: `idle`, or `error` after a failed deployment."""
    failure: str | None
    """Why the deployment failed, if it did."""
    reason: str
    abandoned: bool
    """Whether the container may still run: an operator releases the slot by force."""


class SlotHandover:
    """Frees slots and hands them over to the next bots of their pools."""

    def __init__(
        self,
        database: Database,
        matcher: Matcher,
        wakeups: Wakeups,
        metrics: Metrics,
        *,
        max_attempts: int,
        max_infrastructure_retries: int,
    ) -> None:
        """`max_attempts` is the number of deployments that a bot gets in all.

        `max_infrastructure_retries` is the number of further ones after infrastructure faults.
        """
        self._database = database
        self._matcher = matcher
        self._wakeups = wakeups
        self._metrics = metrics
        self._max_attempts = max_attempts
        self._max_infrastructure_retries = max_infrastructure_retries
        # Pools whose last match assigned a slot; only an expectation for the next release.
        self._pools_with_queue: set[PoolName] = set()
        self._batchers: dict[PoolName, Batcher[SlotRelease, FreedSlot | None]] = {}

    async def free(
        self, slot: ReleasableSlot, *, container_gone: bool, forced: str | None = None
    ) -> FreedSlot | None:
        """Free a slot and hand it over; None if the slot has changed.

        `forced`: the reason of an operator who releases the slot without a confirmed stop.
        """
        if (batcher := self._batchers.get(slot.pool_name)) is None:
            batcher = self._batchers[slot.pool_name] = Batcher(
                f"free {slot.pool_name}",
                self._free_batch,
                max_batch=_MAX_BATCH,
                max_in_flight=2,
                distinct_by=lambda release: release.slot.slot_id,
            )
        return await batcher.submit(_release_of(slot, container_gone, forced))

    async def end_standby(self, slot: FencedSlot, *, container_gone: bool) -> bool:
        """Make the slot of a stopped standby assignable again; False if the slot has changed."""
        end = end_standby.statement(
            slot_id=slot.slot_id, version=slot.version, container_gone=container_gone
        )
        match = self._matcher.prepare_match(slot.pool_name)
        lock = lock_pool.statement(pool_name=slot.pool_name)
        await self._database.commit([lock, end, *match.statements])
        self._matcher.report(match)
        return end.result is not None

    async def restart_cold(self, slot: FencedSlot, *, container_gone: bool) -> bool:
        """Start the bot cold in its slot, after the stop of the standby that did not accept it."""
        restarted = await restart_cold(self._database, **slot.fence, container_gone=container_gone)
        if restarted is None:
            return False
        event_log.slot_transition(
            restarted,
            old=SlotStatus.RELEASING,
            new=SlotStatus.DEPLOYING,
            reason=reasons.COLD_AFTER_HANDOVER,
        )
        self._wakeups.wake_reconcilers()
        return True

    async def _free_batch(
        self, releases: Sequence[SlotRelease]
    ) -> list[FreedSlot | Exception | None]:
        pool_name = releases[0].slot.pool_name
        freed: dict[SlotId, FreedSlot | Exception] = {}
        any_failed = any(release.failure for release in releases)
        needs_match = pool_name in self._pools_with_queue or self._matcher.has_bookings(pool_name)
        if not needs_match and not any_failed:
            freed |= await self._free_without_match(pool_name, releases)
        if rest := [release for release in releases if release.slot.slot_id not in freed]:
            try:
                freed |= await self._free_and_match(pool_name, rest)
            except Exception as error:
                if not freed:
                    raise
                # The first transaction is committed: the error concerns the rest only.
                freed |= {release.slot.slot_id: error for release in rest}
        await self._serve_other_pools(pool_name, freed)
        return [freed.get(release.slot.slot_id) for release in releases]

    async def _serve_other_pools(
        self, pool_name: PoolName, freed: Mapping[SlotId, FreedSlot | Exception]
    ) -> None:
        """Match the other pools in which tenants wait whose quota has room again."""
        tenants = {
            slot.tenant_id
            for slot in freed.values()
            if isinstance(slot, FreedSlot) and slot.tenant_has_quota
        }
        if tenants:
            await self._matcher.serve_tenants(tenants, besides=pool_name)

    async def _free_without_match(
        self, pool_name: PoolName, releases: Sequence[SlotRelease]
    ) -> dict[SlotId, FreedSlot]:
        free = _free_statement(releases, match_follows=False)
        await self._database.commit([lock_pool.statement(pool_name=pool_name), free])
        freed = {slot.slot_id: slot for slot in free.result}
        _log_freed(releases, freed, requeued=frozenset(), failed=frozenset())
        self._measure(pool_name, freed, assigned=frozenset())
        return freed

    async def _free_and_match(
        self, pool_name: PoolName, releases: Sequence[SlotRelease]
    ) -> dict[SlotId, FreedSlot]:
        unfinished = [release for release in releases if release.slot.bot_status not in FINAL]
        statements: list[Statement[Any]] = [lock_pool.statement(pool_name=pool_name)]
        statements.append(free := _free_statement(releases, match_follows=True))
        if unfinished:
            bot_ids = [release.slot.bot_id for release in unfinished]
            assignment_ids = [release.slot.assignment_id for release in unfinished]
            failures = [release.failure for release in unfinished]
            requeue = requeue_bots.statement(
                bot_ids=bot_ids,
                assignment_ids=assignment_ids,
                reasons=failures,
                max_attempts=self._max_attempts,
                max_infrastructure_retries=self._max_infrastructure_retries,
            )
            fail = fail_bots_without_attempts.statement(
                bot_ids=bot_ids, assignment_ids=assignment_ids, reasons=failures
            )
            statements += [requeue, fail]
        match = self._matcher.prepare_match(pool_name)
        await self._database.commit([*statements, *match.statements])
        freed = {slot.slot_id: slot for slot in free.result}
        codes = {bot.bot_id: bot.failure_code for bot in fail.result} if unfinished else {}
        requeued = {bot.bot_id: bot for bot in requeue.result} if unfinished else {}
        _log_freed(releases, freed, requeued=requeued.keys(), failed=codes.keys())
        self._report_bots(unfinished, requeued=requeued, failed=codes)
        assigned = self._matcher.report(match)
        self._measure(pool_name, freed, assigned=assigned)
        if assigned:
            self._pools_with_queue.add(pool_name)
        else:
            self._pools_with_queue.discard(pool_name)
        if any(release.failure for release in releases):
            self._wakeups.wake_reconcilers()
        return freed

    def _measure(
        self, pool_name: PoolName, freed: Mapping[SlotId, FreedSlot], *, assigned: Set[SlotId]
    ) -> None:
        """Measure the release of the freed slots; `assigned` are those with a next bot."""
        slots = freed.values()
        self._metrics.released(pool_name, after_s=[slot.releasing_s for slot in slots])
        handed_over = [slot.releasing_s for slot in slots if slot.slot_id in assigned]
        if handed_over:
            self._metrics.handed_over(pool_name, after_s=handed_over)

    def _report_bots(
        self,
        releases: Sequence[SlotRelease],
        *,
        requeued: Mapping[BotId, RequeuedBot],
        failed: Mapping[BotId, FailureCode],
    ) -> None:
        """Log and count the bots whose deployment failed; users have stopped the others."""
        for release in releases:
            slot = release.slot
            assert slot.bot_id is not None
            assert slot.correlation_id is not None
            code, retried = failed.get(slot.bot_id), requeued.get(slot.bot_id)
            if code is None and retried is None:
                continue
            if retried is not None:
                cause = "infrastructure" if retried.infrastructure_fault else "deployment"
                self._metrics.bot_retried(slot.pool_name, cause)
            event_log.bot_transition(
                bot_id=slot.bot_id,
                pool=slot.pool_name,
                old=BotStatus.DEPLOYING,
                new=BotStatus.QUEUED if code is None else BotStatus.FAILED,
                correlation_id=slot.correlation_id,
                reason=release.reason,
            )
            if code is not None:
                self._metrics.bots_ended(slot.pool_name, BotStatus.FAILED, code)


def _free_statement(
    releases: Sequence[SlotRelease], *, match_follows: bool
) -> Statement[list[FreedSlot]]:
    slots = [release.slot for release in releases]
    return free_slots.statement(
        pool_name=slots[0].pool_name,
        match_follows=match_follows,
        slot_ids=[slot.slot_id for slot in slots],
        assignment_ids=[slot.assignment_id for slot in slots],
        versions=[slot.version for slot in slots],
        statuses=[release.status for release in releases],
        error_messages=[release.failure for release in releases],
        containers_gone=[release.container_gone for release in releases],
        reasons=[release.reason for release in releases],
        abandoned=[release.abandoned for release in releases],
    )


def _log_freed(
    releases: Sequence[SlotRelease],
    freed: Mapping[SlotId, FreedSlot],
    *,
    requeued: Set[BotId],
    failed: Set[BotId],
) -> None:
    """Log the releases with the status that each bot has after its transaction."""

    def status_of(slot: FreedSlot) -> BotStatus:
        if slot.bot_id in requeued:
            return BotStatus.QUEUED
        return BotStatus.FAILED if slot.bot_id in failed else slot.bot_status

    event_log.slots_released(
        event_log.Release(
            slot=slot,
            bot_status=status_of(slot),
            occupied_s=slot.occupied_s,
            new=release.status,
            reason=release.reason,
            gone=release.slot.container_id if release.container_gone else None,
        )
        for release in releases
        if (slot := freed.get(release.slot.slot_id)) is not None
    )


def _release_of(slot: ReleasableSlot, container_gone: bool, forced: str | None) -> SlotRelease:
    # Only a failed deployment, or an infrastructure fault, releases a slot with an unfinished bot.
    is_unfinished = slot.bot_status not in FINAL
    # A reset helps neither after an infrastructure fault nor beside an abandoned container.
    needs_reset = not slot.infrastructure_fault and forced is None
    failure = slot.failure or (reasons.DEPLOYMENT_FAILED if is_unfinished else None)
    return SlotRelease(
        slot=slot,
        container_gone=container_gone,
        status=SlotStatus.ERROR if failure and needs_reset else SlotStatus.IDLE,
        failure=failure,
        reason=forced or failure or reasons.STOP_CONFIRMED,
        abandoned=forced is not None,
    )
