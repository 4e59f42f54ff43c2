"""SlotHandover slots whose stop is confirmed, and serving the queue with them, in one transaction.

Gathered by pool: slots that wait while a transaction is under way are freed together in the next,
each behind its own fence, and one match hands all of them on. Where nobody is expected to wait the
match is left out, and the statement that frees makes sure of it under the pool's lock: who was not
freed that way is freed with the match.

What happens if the process dies: before the commit they are still `releasing`, and the stop is
made and seen again; after it, they are free or have the next bot. Twice: the second finds another
version.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

from botpool.domain.ids import PoolName, SlotId
from botpool.domain.records import LeasedSlot, ObservedSlot
from botpool.domain.states import FINAL, BotStatus, FailureCode, SlotStatus
from botpool.engine.admission.matcher import Matcher, lock, match_calls
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Call, Database, Rows
from botpool.store.rows import to_slot_change

_AT_ONCE = 64
"""More would cost each more: the statement's joins are planned for a few."""

_Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    slot: LeasedSlot | ObservedSlot
    container_gone: bool
    is_unfinished: bool
    """Is its bot tried again, or given up, with this release?"""
    failure: str | None
    """Why its deployment failed, if it did."""

    @classmethod
    def of(cls, slot: LeasedSlot | ObservedSlot, *, container_gone: bool) -> "_Release":
        # A bot that is not final comes from a failed deployment: nothing else releases it so.
        is_unfinished = slot.bot_status not in FINAL
        failure = slot.failure or ("the deployment failed" if is_unfinished else None)
        return cls(
            slot=slot, container_gone=container_gone, is_unfinished=is_unfinished, failure=failure
        )

    @property
    def status(self) -> SlotStatus:
        return SlotStatus.ERROR if self.failure else SlotStatus.IDLE

    @property
    def reason(self) -> str:
        return self.failure or "the stop was confirmed"


class SlotHandover:
    def __init__(
        self,
        database: Database,
        matcher: Matcher,
        wakeups: Wakeups,
        metrics: Metrics,
        *,
        attempts: int,
    ) -> None:
        """`attempts`: how often a bot is deployed in all."""
        self._database = database
        self._matcher = matcher
        self._wakeups = wakeups
        self._metrics = metrics
        self._attempts = attempts
        # Pools whose last match gave a slot on: the next one is expected to. Only a guess.
        self._handing_on: set[PoolName] = set()
        self._releases: dict[PoolName, Batcher[_Release, _Row | None]] = {}

    async def free(self, slot: LeasedSlot | ObservedSlot, *, container_gone: bool) -> _Row | None:
        """Free the slot and hand it on. What was freed; None: it moved on."""
        if (releases := self._releases.get(slot.pool_name)) is None:
            releases = self._releases[slot.pool_name] = Batcher(
                f"free {slot.pool_name}",
                self._free,
                max_batch=_AT_ONCE,
                max_in_flight=2,
                distinct_by=lambda release: release.slot.slot_id,
            )
        return await releases.submit(_Release.of(slot, container_gone=container_gone))

    async def _free(self, releases: Sequence[_Release]) -> list[_Row | Exception | None]:
        pool_name = releases[0].slot.pool_name
        freed: dict[SlotId, _Row | Exception] = {}
        if pool_name not in self._handing_on and not any(release.failure for release in releases):
            freed |= await self._free_only(pool_name, releases)
        if rest := [release for release in releases if release.slot.slot_id not in freed]:
            try:
                freed |= await self._free_and_match(pool_name, rest)
            except Exception as error:
                if not freed:
                    raise
                # The others were freed and committed: it is not theirs.
                freed |= {release.slot.slot_id: error for release in rest}
        return [freed.get(release.slot.slot_id) for release in releases]

    async def _free_only(
        self, pool_name: PoolName, releases: Sequence[_Release]
    ) -> dict[SlotId, _Row]:
        _, rows = await self._database.atomically(
            lock(pool_name), _free_slots(pool_name, releases, match_follows=False)
        )
        freed = _told(releases, rows)
        self._measure(pool_name, freed, given=frozenset())
        return freed

    async def _free_and_match(
        self, pool_name: PoolName, releases: Sequence[_Release]
    ) -> dict[SlotId, _Row]:
        unfinished = [release for release in releases if release.is_unfinished]
        calls = [lock(pool_name), _free_slots(pool_name, releases, match_follows=True)]
        if unfinished:
            bots = _bot_columns(unfinished)
            calls += [
                ("requeue_bots", bots | {"max_attempts": self._attempts}),
                ("fail_bots_without_attempts", bots),
            ]
        results = await self._database.atomically(*calls, *match_calls(pool_name))
        freed = _told(releases, results[1])
        if unfinished:
            self._bots_left(unfinished, requeued=results[2], failed=results[3])
        given = self._matcher.matched(results)
        self._measure(pool_name, freed, given=given)
        if given:
            self._handing_on.add(pool_name)
        else:
            self._handing_on.discard(pool_name)
        if any(release.failure for release in releases):
            self._wakeups.slots_due()
        return freed

    def _measure(
        self, pool_name: PoolName, freed: Mapping[SlotId, _Row], *, given: Set[SlotId]
    ) -> None:
        self._metrics.released(pool_name, after_s=[row["releasing_s"] for row in freed.values()])
        if given:
            handed_over = [row["releasing_s"] for slot_id, row in freed.items() if slot_id in given]
            self._metrics.handed_over(pool_name, after_s=handed_over)

    def _bots_left(self, releases: Sequence[_Release], *, requeued: Rows, failed: Rows) -> None:
        """Tell what became of bots whose deployment failed. Of others: their user stopped them."""
        became = {row["bot_id"]: BotStatus.QUEUED for row in requeued}
        became |= {row["bot_id"]: BotStatus.FAILED for row in failed}
        for release in releases:
            slot = release.slot
            assert slot.bot_id is not None
            assert slot.correlation_id is not None
            if (status := became.get(slot.bot_id)) is None:
                continue
            event_log.bot_transition(
                bot_id=slot.bot_id,
                pool=slot.pool_name,
                old=BotStatus.DEPLOYING,
                new=status,
                correlation_id=slot.correlation_id,
                reason=release.reason,
            )
            if status is BotStatus.FAILED:
                code = FailureCode.DEPLOY_FAILED
                self._metrics.bots_ended(slot.pool_name, status, code)


def _told(releases: Sequence[_Release], rows: Rows) -> dict[SlotId, _Row]:
    """Tell of those that were freed, by their rows."""
    freed: dict[SlotId, _Row] = {row["slot_id"]: row for row in rows}
    event_log.slots_released(
        event_log.Release(
            slot=to_slot_change(freed[release.slot.slot_id]),
            bot_status=freed[release.slot.slot_id]["bot_status"],
            occupied_s=freed[release.slot.slot_id]["occupied_s"],
            new=release.status,
            reason=release.reason,
            gone=release.slot.container_id if release.container_gone else None,
        )
        for release in releases
        if release.slot.slot_id in freed
    )
    return freed


def _free_slots(pool_name: PoolName, releases: Sequence[_Release], *, match_follows: bool) -> Call:
    columns = {
        "pool_name": pool_name,
        "match_follows": match_follows,
        "slot_ids": [release.slot.slot_id for release in releases],
        "assignment_ids": [release.slot.assignment_id for release in releases],
        "versions": [release.slot.version for release in releases],
        "statuses": [release.status for release in releases],
        "error_messages": [release.failure for release in releases],
        "containers_gone": [release.container_gone for release in releases],
        "reasons": [release.reason for release in releases],
    }
    return ("free_slots", columns)


def _bot_columns(releases: Sequence[_Release]) -> dict[str, Any]:
    return {
        "bot_ids": [release.slot.bot_id for release in releases],
        "assignment_ids": [release.slot.assignment_id for release in releases],
        "reasons": [release.failure for release in releases],
    }
