"""Log lines for what happened to slots and bots. Written after the commit, never before.

Every change of a slot's status is one `slot.transition`, every change of a bot's status that no
slot goes along with one `bot.transition`. Five kinds of lines carry a `point`: those by which an
operator follows a slot through its life.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from botpool.domain.bot_ending import BotEnding
from botpool.domain.errors import BackendError, BudgetExhausted
from botpool.domain.ids import BotId, ContainerId, DeploymentId, SlotId
from botpool.domain.records import LeasedSlot, ObservedSlot, SlotChange
from botpool.domain.states import BotStatus, SlotStatus

_log = structlog.get_logger("botpool.pool")
_AT_ONCE = 5
"""Lines, that is: what several processes write to one pipe stays whole up to 4,096 bytes."""
_SHORT = 100
"""Characters of a reason. What others gave as one may be long, and is told alone."""


def slot_transitioned(
    slot: SlotChange,
    *,
    old: SlotStatus | None,
    new: SlotStatus | None,
    reason: str,
    **context: object,
) -> None:
    """Log a change of one slot's status."""
    _log.info("slot.transition", **_of_slot(slot), **_from_to(old, new), reason=reason, **context)


def assigned(slots: Iterable[SlotChange], *, reason: str) -> None:
    """Log the slots that one statement assigned to bots; all of them were idle."""
    change = {
        **_from_to(SlotStatus.IDLE, SlotStatus.DEPLOYING),
        "reason": reason,
        "point": "assign",
    }
    _write_batch("slot.transition", [{**_of_slot(slot), **change} for slot in slots])


class End(NamedTuple):
    """A bot's end, and the slot that starts its release with it."""

    slot: SlotChange
    old: SlotStatus
    ending: BotEnding


def ended(ends: Iterable[End]) -> None:
    """Log the bots that one statement ended, with the slots that it releases."""
    lines = [
        {
            **_of_slot(end.slot),
            **_from_to(end.old, SlotStatus.RELEASING),
            "reason": end.ending.reason,
            "bot_status": str(end.ending.status),
        }
        for end in ends
    ]
    _write_batch("slot.transition", lines)


class Release(NamedTuple):
    """A slot that no longer has a bot."""

    slot: SlotChange
    bot_status: BotStatus
    occupied_s: float
    new: SlotStatus
    reason: str
    gone: ContainerId | None
    """The container that no longer exists."""


def released(releases: Iterable[Release]) -> None:
    """Log the slots that one statement freed."""
    _write_batch("slot.transition", [_of_release(release) for release in releases])


def bot_transitioned(
    *,
    bot_id: BotId,
    pool: str,
    old: BotStatus | None,
    new: BotStatus,
    correlation_id: str,
    reason: str,
) -> None:
    """A bot's status changed, and no slot's with it."""
    _log.info(
        "bot.transition",
        bot=bot_id,
        pool=pool,
        **_from_to(old, new),
        correlation_id=correlation_id,
        reason=reason,
    )


def fence_held(*, name: str, slot_id: int, wanted: str) -> None:
    """A write came too late: somebody else owns the slot's state by now. Nothing was changed."""
    _log.info("slot.fenced", slot=slot_id, name=name, wanted=wanted)


def container_recreated(slot: LeasedSlot, made: ContainerId, *, attempt: int | None) -> None:
    """A container was deleted behind our back, and made again under the same slot."""
    _log.warning(
        "slot.container_recreated",
        point="recreate",
        slot=slot.slot_id,
        name=slot.slot_name,
        old=slot.container_id,
        new=made,
        bot=slot.bot_id,
        attempt=attempt,
        correlation_id=slot.correlation_id,
    )


def heartbeat_lost(
    *,
    slot_id: SlotId,
    name: str,
    bot_id: BotId,
    container_id: ContainerId | None,
    correlation_id: str | None,
    last_heartbeat_at: datetime | None,
    threshold_s: float,
) -> None:
    """A bot's heartbeats have stopped for longer than they may."""
    _log.warning(
        "slot.heartbeat_lost",
        point="heartbeat_timeout",
        slot=slot_id,
        name=name,
        bot=bot_id,
        container=container_id,
        last_heartbeat_at=last_heartbeat_at.isoformat() if last_heartbeat_at else None,
        threshold_s=threshold_s,
        correlation_id=correlation_id,
    )


def deployment_changed(
    slot: LeasedSlot | ObservedSlot, deployment_id: DeploymentId, *, old: str | None, new: str
) -> None:
    """The backend's own record of a start went from one status to the next."""
    _log.info(
        "slot.deployment",
        point="deployment_status",
        slot=slot.slot_id,
        name=slot.slot_name,
        container=slot.container_id,
        deployment=deployment_id,
        **_from_to(old, new),
        bot=slot.bot_id,
        correlation_id=slot.correlation_id,
    )


def _write_batch(event: str, lines: Iterable[Mapping[str, Any]]) -> None:
    """What happened to many at once, a few lines in one write."""
    short: list[Mapping[str, Any]] = []
    long: list[Mapping[str, Any]] = []
    for line in lines:
        reason = line["reason"]
        (short if len(reason) <= _SHORT and reason.isascii() else long).append(line)
    for start in range(0, len(short), _AT_ONCE):
        first, *others = short[start : start + _AT_ONCE]
        if others:
            _log.info(event, each=[first, *others])
        else:
            _log.info(event, **first)
    for line in long:
        _log.info(event, **line)


def _of_release(release: Release) -> dict[str, object]:
    return {
        **_of_slot(release.slot),
        **_from_to(SlotStatus.RELEASING, release.new),
        "reason": release.reason,
        "point": "release",
        "bot_status": str(release.bot_status),
        "duration_s": round(release.occupied_s, 3),
        **({"gone_container": release.gone} if release.gone else {}),
    }


def _of_slot(slot: SlotChange) -> dict[str, object]:
    return {
        "slot": slot.slot_id,
        "name": slot.slot_name,
        "container": slot.container_id,
        "bot": slot.bot_id,
        "correlation_id": slot.correlation_id,
    }


def _from_to(old: str | None, new: str | None) -> dict[str, str | None]:
    """`from` is a word of Python's, and cannot be written as an argument."""
    return {"from": str(old) if old else None, "to": str(new) if new else None}


def unavailable(event: str, error: BackendError, **context: object) -> None:
    """A backend did not do it now. A spent budget is no trouble: it was made to be spent."""
    log = _log.info if isinstance(error, BudgetExhausted) else _log.warning
    log(event, problem=str(error), **context)
