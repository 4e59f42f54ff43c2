"""What `botpool import meeboter` does with each slot and queued bot of Meeboter's pool."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from botpool.domain.ids import ContainerId, PoolName

MOVED = "botpool"
"""The status of a Meeboter slot that Botpool has taken over: Meeboter assigns only `idle` slots."""
DUPLICATE = "botpool-duplicate"
"""The status of a duplicate whose application is being deleted."""

FINAL_STATUSES = frozenset({"DONE", "FATAL", "FAILED", "CANCELLED"})
_FREE_STATUSES = frozenset({"idle", "error", MOVED, DUPLICATE})
_SLOT_NAME = re.compile(r"(?:.*-)?pool-(?P<platform>[a-z0-9-]+?)-(?P<number>\d+)")
_POOL_NAMES = {"microsoft-teams": "teams"}
_RELEASED = "its bot has ended, and Meeboter releases it; if it does not, set its status to idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeeboterSlot:
    """A row of Meeboter's `bot_pool_slots`, with the status of its bot."""

    id: int
    container_id: ContainerId
    slot_name: str
    status: str
    bot_id: int | None
    bot_status: str | None

    @property
    def has_live_bot(self) -> bool:
        return self.bot_id is not None and (self.bot_status or "").upper() not in FINAL_STATUSES

    @property
    def is_being_released(self) -> bool:
        """Whether Meeboter still has to stop the container of a bot that has ended.

        Its release sets the slot to idle by its id, so the slot must not change hands before.
        """
        is_free = self.status.lower() in _FREE_STATUSES
        return self.bot_id is not None and not self.has_live_bot and not is_free

    @property
    def is_moved(self) -> bool:
        return self.status == MOVED

    @property
    def is_occupied_without_bot(self) -> bool:
        """Whether Meeboter says that something runs here, but not for which bot."""
        return self.bot_id is None and self.status.lower() not in _FREE_STATUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class MeeboterBot:
    """A bot of Meeboter's queue. The statement that takes it off the queue keeps these values."""

    bot_id: int
    priority: int
    remaining_ms: int
    display_name: str | None
    meeting: Mapping[str, Any] | None = field(repr=False)
    details: Mapping[str, Any] = field(repr=False)
    """The fields that only the bot itself reads, for `botData`."""

    @property
    def meeting_url(self) -> str | None:
        url = (self.meeting or {}).get("meetingUrl")
        return url if isinstance(url, str) and url else None

    @property
    def pool_name(self) -> PoolName | None:
        return pool_name_of((self.meeting or {}).get("platform"))


class ImportStep(StrEnum):
    """What the import does with a slot or a bot."""

    ADOPT = "adopt"
    DELETE = "delete"
    QUEUE = "queue"
    WAIT = "wait"
    SKIP = "skip"
    DONE = "done"


CHANGES = frozenset({ImportStep.ADOPT, ImportStep.DELETE, ImportStep.QUEUE})
"""The steps that change something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    slot: MeeboterSlot
    step: ImportStep
    pool_name: PoolName | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPlan:
    bot: MeeboterBot
    step: ImportStep
    pool_name: PoolName | None
    detail: str


def pool_name_of(platform: object) -> PoolName | None:
    """Return Botpool's name of a Meeboter platform: Teams is called `microsoft-teams` there."""
    if not isinstance(platform, str) or not platform:
        return None
    return PoolName(_POOL_NAMES.get(platform, platform))


def pool_and_number(slot_name: str) -> tuple[PoolName, int] | None:
    """Return the pool and number of a slot name such as `meeboter-pool-google-meet-001`."""
    found = _SLOT_NAME.fullmatch(slot_name)
    pool_name = found and pool_name_of(found["platform"])
    return (pool_name, int(found["number"])) if found and pool_name else None


def plan_slots(
    slots: Sequence[MeeboterSlot], pools: frozenset[PoolName], owned: Mapping[ContainerId, str]
) -> list[SlotPlan]:
    """Decide what happens to each slot.

    `pools` are the pools that can take slots, `owned` the names of Botpool's slots by container.
    Of several rows with one name, one is kept: the row that was taken over before, else the row
    with a bot, else the lowest id.
    """
    by_name = defaultdict(list)
    for slot in slots:
        by_name[slot.slot_name].append(slot)
    return [
        plan
        for _, rows in sorted(by_name.items())
        for plan in _plan_name(sorted(rows, key=_keep_first), pools, owned)
    ]


def plan_bots(bots: Sequence[MeeboterBot], pools: frozenset[PoolName]) -> list[BotPlan]:
    """Decide what happens to each queued bot."""
    return [_plan_bot(bot, pools) for bot in bots]


def _keep_first(slot: MeeboterSlot) -> tuple[bool, bool, bool, int]:
    return (not slot.is_moved, not slot.has_live_bot, slot.bot_id is None, slot.id)


def _plan_name(
    rows: Sequence[MeeboterSlot], pools: frozenset[PoolName], owned: Mapping[ContainerId, str]
) -> Iterator[SlotPlan]:
    kept, *duplicates = rows
    yield _plan_slot(kept, pools, owned)
    found = pool_and_number(kept.slot_name)
    for slot in duplicates:
        step, detail = ImportStep.DELETE, f"duplicate of slot {kept.id}, with its application"
        if slot.container_id in owned:
            step, detail = ImportStep.DONE, f"is {owned[slot.container_id]} now"
        elif slot.has_live_bot:
            step, detail = ImportStep.WAIT, f"duplicate; its bot {slot.bot_id} is live"
        elif slot.is_being_released:
            step, detail = ImportStep.WAIT, _RELEASED
        elif slot.is_occupied_without_bot:
            step, detail = ImportStep.SKIP, _occupied(slot)
        yield SlotPlan(slot=slot, step=step, pool_name=found and found[0], detail=detail)


def _plan_slot(
    slot: MeeboterSlot, pools: frozenset[PoolName], owned: Mapping[ContainerId, str]
) -> SlotPlan:
    found = pool_and_number(slot.slot_name)
    pool_name = found and found[0]

    def plan(step: ImportStep, detail: str) -> SlotPlan:
        return SlotPlan(slot=slot, step=step, pool_name=pool_name, detail=detail)

    if slot.container_id in owned:
        return plan(ImportStep.DONE, f"is {owned[slot.container_id]} now")
    if pool_name is None:
        return plan(ImportStep.SKIP, "the name does not end in pool-<platform>-<number>")
    if pool_name not in pools:
        return plan(ImportStep.SKIP, f"the settings have no pool {pool_name} on Coolify")
    if slot.has_live_bot:
        return plan(ImportStep.WAIT, f"its bot {slot.bot_id} is {slot.bot_status}")
    if slot.is_being_released:
        return plan(ImportStep.WAIT, _RELEASED)
    if slot.is_occupied_without_bot:
        return plan(ImportStep.SKIP, _occupied(slot))
    return plan(ImportStep.ADOPT, f"with its application, for pool {pool_name}")


def _occupied(slot: MeeboterSlot) -> str:
    return f"Meeboter says {slot.status} but names no bot; set its status to idle if nothing runs"


def _plan_bot(bot: MeeboterBot, pools: frozenset[PoolName]) -> BotPlan:
    def plan(step: ImportStep, detail: str) -> BotPlan:
        return BotPlan(bot=bot, step=step, pool_name=bot.pool_name, detail=detail)

    if bot.meeting_url is None:
        return plan(ImportStep.SKIP, "it has no meeting link")
    if bot.pool_name not in pools:
        return plan(ImportStep.SKIP, f"the settings have no pool {bot.pool_name}")
    if bot.remaining_ms <= 0:
        return plan(ImportStep.SKIP, "its time in the queue is over")
    return plan(ImportStep.QUEUE, f"priority {bot.priority}, {bot.remaining_ms // 1000} s left")
