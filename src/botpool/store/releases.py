"""Statements about the end of bots and the release of their slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botpool.domain.bot_ending import BotEnding
from botpool.domain.ids import AssignmentId, BotId, PoolName
from botpool.domain.records import LeasedSlot, ObservedSlot, SlotChange
from botpool.domain.states import BotStatus, FailureCode, SlotStatus
from botpool.store.statement import Statement, column, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BotEnd:
    """The end of an assignment's bot, as requested.

    `holds_lease`: the caller holds the slot's lease, and the statement returns the lease.
    `silent_since`: the bot ends only if no heartbeat arrived at that time or later.
    """

    assignment_id: AssignmentId
    ending: BotEnding
    version: int | None = None
    holds_lease: bool = False
    silent_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedBot(SlotChange):
    """A slot whose bot ended; `slot_status` and `bot_status` are the statuses before."""

    pool_name: PoolName
    slot_status: SlotStatus
    assignment_id: AssignmentId
    bot_status: BotStatus
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRelease:
    """The release of a slot whose stop is confirmed, as requested."""

    slot: LeasedSlot | ObservedSlot
    container_gone: bool
    status: SlotStatus
    """The slot's status after the release: `idle`, or `error` after a failed deployment."""
    failure: str | None
    """Why the deployment failed, if it did."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedSlot(SlotChange):
    """A slot that no longer has a bot; `bot_id` is the bot that it had."""

    bot_status: BotStatus
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""
    occupied_s: float
    releasing_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BotWithoutAttempts:
    """A bot that failed because its last deployment failed."""

    bot_id: BotId
    failure_code: FailureCode


def end_bots(ends: Sequence[BotEnd]) -> Statement[EndedBot]:
    """End bots that are in slots, and start the release of their slots."""
    endings = [end.ending for end in ends]
    parameters = {
        "assignment_ids": [end.assignment_id for end in ends],
        "versions": [end.version for end in ends],
        "statuses": [ending.status for ending in endings],
        "failure_codes": [ending.failure_code for ending in endings],
        "failure_reasons": [ending.reason if ending.failure_code else None for ending in endings],
        "reasons": [ending.reason for ending in endings],
        "hold_leases": [end.holds_lease for end in ends],
        "silent_since": [end.silent_since for end in ends],
    }
    return Statement("end_bots", parameters, record_of(EndedBot))


def free_slots(
    pool_name: PoolName, releases: Sequence[SlotRelease], *, match_follows: bool
) -> Statement[FreedSlot]:
    """Free slots of one pool whose stops are confirmed.

    Without a match in the same transaction, the statement frees only slots after which a match
    would change nothing.
    """
    slots = [release.slot for release in releases]
    parameters = {
        "pool_name": pool_name,
        "match_follows": match_follows,
        "slot_ids": [slot.slot_id for slot in slots],
        "assignment_ids": [slot.assignment_id for slot in slots],
        "versions": [slot.version for slot in slots],
        "statuses": [release.status for release in releases],
        "error_messages": [release.failure for release in releases],
        "containers_gone": [release.container_gone for release in releases],
        "reasons": [release.reason for release in releases],
    }
    return Statement("free_slots", parameters, record_of(FreedSlot))


def requeue_bots(releases: Sequence[SlotRelease], *, max_attempts: int) -> Statement[BotId]:
    """Queue bots again whose deployments failed, while attempts remain; returns these bots."""
    parameters = {**_bots(releases), "max_attempts": max_attempts}
    return Statement("requeue_bots", parameters, column("bot_id", BotId))


def fail_bots_without_attempts(releases: Sequence[SlotRelease]) -> Statement[BotWithoutAttempts]:
    """Fail the bots whose last deployment failed and that `requeue_bots` did not queue."""
    return Statement("fail_bots_without_attempts", _bots(releases), record_of(BotWithoutAttempts))


def clear_stop(slot: ObservedSlot, *, limit_s: float) -> Statement[int]:
    """Discard a stop that an active deployment may undo, so that the reconciler repeats it."""
    parameters = {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
        "limit_s": limit_s,
    }
    return Statement("clear_stop", parameters, column("version", int))


def _bots(releases: Sequence[SlotRelease]) -> Mapping[str, Any]:
    return {
        "bot_ids": [release.slot.bot_id for release in releases],
        "assignment_ids": [release.slot.assignment_id for release in releases],
        "reasons": [release.failure for release in releases],
    }
