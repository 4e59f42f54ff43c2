"""Log lines about slots and bots, written after the commit of the change.

Every change of a slot's status is one `slot.transition`; every change of a bot's status without a
change of a slot is one `bot.transition`. The five critical points of a slot's lifecycle carry a
`point`: assign, release, recreate, heartbeat_timeout, deployment_status.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from botpool.domain.bot_ending import BotEnding
from botpool.domain.errors import BackendError, BudgetExhausted
from botpool.domain.fenced_slots import BackendSlot, LeasedSlot, ObservedSlot, StuckSlot
from botpool.domain.ids import BotId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState
from botpool.domain.slots import SlotChange
from botpool.domain.states import BotStatus, SlotStatus

_log = structlog.get_logger("botpool.pool")
_LINES_PER_WRITE = 5
"""Keeps a write below 4,096 bytes, up to which a pipe does not mix lines of several processes."""
_MAX_SHORT_REASON = 100
"""Characters; a line with a longer reason is written on its own."""


def slot_transition(
    slot: SlotChange,
    *,
    old: SlotStatus | None,
    new: SlotStatus | None,
    reason: str,
    **context: object,
) -> None:
    """Log a change of one slot's status."""
    _log.info("slot.transition", **_of_slot(slot), **_from_to(old, new), reason=reason, **context)


def bots_assigned(slots: Iterable[SlotChange], *, reason: str) -> None:
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


def bots_ended(ends: Iterable[End]) -> None:
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


def slots_released(releases: Iterable[Release]) -> None:
    """Log the slots that one statement freed."""
    _write_batch("slot.transition", [_of_release(release) for release in releases])


def bot_transition(
    *,
    bot_id: BotId,
    pool: str,
    old: BotStatus | None,
    new: BotStatus,
    correlation_id: str,
    reason: str,
) -> None:
    """Log a change of a bot's status without a change of a slot."""
    _log.info(
        "bot.transition",
        bot=bot_id,
        pool=pool,
        **_from_to(old, new),
        correlation_id=correlation_id,
        reason=reason,
    )


def bot_at_risk(*, bot_id: BotId, pool: str, correlation_id: str, reason: str) -> None:
    """Log that a scheduled bot will probably be late."""
    _log.warning("bot.at_risk", bot=bot_id, pool=pool, correlation_id=correlation_id, reason=reason)


def image_pulled(slot: SlotChange, *, pool: str, reason: str) -> None:
    """Log that the image of a rollout is present, so that its canary begins."""
    _log.info("rollout.canary", pool=pool, **_of_slot(slot), reason=reason)


def write_fenced(*, name: str, slot_id: int, wanted: str) -> None:
    """Log a fenced write that changed nothing, because the slot has changed since it was read."""
    _log.info("slot.fenced", slot=slot_id, name=name, wanted=wanted)


def container_recreated(
    slot: LeasedSlot, *, old_id: ContainerId | None, new_id: ContainerId
) -> None:
    """Log that a slot's container was created again, as an attempt to recover the slot."""
    _log.warning(
        "slot.container_recreated",
        point="recreate",
        slot=slot.slot_id,
        name=slot.slot_name,
        old=old_id,
        new=new_id,
        bot=slot.bot_id,
        attempt=slot.resets + 1,
        correlation_id=slot.correlation_id,
    )


def stop_unconfirmed(
    slot: BackendSlot, *, reason: str | None, node: str | None, since: datetime | None
) -> None:
    """Log why the stop of a slot's container cannot be confirmed, or that it can again."""
    if reason is None:
        _log.info(
            "slot.stop_confirmable",
            slot=slot.slot_id,
            name=slot.slot_name,
            bot=slot.bot_id,
            correlation_id=slot.correlation_id,
        )
        return
    _log.warning(
        "slot.stop_unconfirmed",
        slot=slot.slot_id,
        name=slot.slot_name,
        container=slot.container_id,
        bot=slot.bot_id,
        node=node,
        since=since.isoformat() if since else None,
        reason=reason,
        correlation_id=slot.correlation_id,
    )


def heartbeat_lost(slot: StuckSlot, *, threshold_s: float) -> None:
    """Log that a bot has sent no heartbeat for longer than the threshold."""
    last_at = slot.heartbeat_at
    _log.warning(
        "slot.heartbeat_lost",
        point="heartbeat_timeout",
        slot=slot.slot_id,
        name=slot.slot_name,
        bot=slot.bot_id,
        container=slot.container_id,
        last_heartbeat_at=last_at.isoformat() if last_at else None,
        threshold_s=threshold_s,
        correlation_id=slot.correlation_id,
    )


def deployment_status_changed(
    slot: LeasedSlot | ObservedSlot | SlotChange,
    deployment_id: DeploymentId,
    *,
    old: DeploymentState | None,
    new: DeploymentState,
) -> None:
    """Log a change of status of a backend's deployment."""
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
    """Write lines with short reasons in groups, and the others one by one."""
    short: list[Mapping[str, Any]] = []
    long: list[Mapping[str, Any]] = []
    for line in lines:
        reason = line["reason"]
        (short if len(reason) <= _MAX_SHORT_REASON and reason.isascii() else long).append(line)
    for start in range(0, len(short), _LINES_PER_WRITE):
        first, *others = short[start : start + _LINES_PER_WRITE]
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
    """Return the fields `from` and `to`; `from` cannot be a keyword argument in Python."""
    return {"from": str(old) if old else None, "to": str(new) if new else None}


def backend_unavailable(event: str, error: BackendError, **context: object) -> None:
    """Log a failed call to a backend: an exhausted request budget as info, others as a warning."""
    log = _log.info if isinstance(error, BudgetExhausted) else _log.warning
    log(event, problem=str(error), **context)
