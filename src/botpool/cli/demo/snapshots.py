"""Sends the bots and takes snapshots until all bots have ended and all slots are idle."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from botpool.cli.demo.emulated_coolify import CoolifyCounts
from botpool.cli.demo.scenario import DemoBot
from botpool.client import Bot, Client, QueueEntry, Slot
from botpool.domain.states import SlotStatus

_INTERVAL_S = 0.2
_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All bots, slots and queue entries at one time."""

    sent: Mapping[int, DemoBot]
    """The bots that were sent, by their ids."""
    bots: Sequence[Bot]
    slots: Sequence[Slot]
    queue: Sequence[QueueEntry]
    now: datetime
    elapsed_s: float
    counts: CoolifyCounts | None = None

    @property
    def is_last(self) -> bool:
        ended = all(bot.is_final for bot in self.bots)
        return ended and all(slot.status == SlotStatus.IDLE for slot in self.slots)

    def name_of(self, bot_id: int) -> str:
        return f"{bot_id} {self.sent[bot_id].name}"

    def cold_starts(self) -> set[int]:
        """The ids of the bots that were the first in their slot."""
        first: dict[str, int] = {}
        for bot in by_assignment(self.bots):
            if bot.slot_name is not None:
                first.setdefault(bot.slot_name, bot.id)
        return set(first.values())


def run_bots(
    client: Client, bots: Sequence[DemoBot], *, count: Callable[[], CoolifyCounts] | None = None
) -> Iterator[Snapshot]:
    """Send the bots and yield snapshots, up to the last one or to the time limit."""
    began = time.monotonic()
    sent = {_send(client, bot): bot for bot in bots}
    while True:
        snapshot = Snapshot(
            sent=sent,
            slots=[*client.slots()],
            queue=[*client.queue()],
            bots=sorted(client.bots(), key=lambda bot: bot.id),
            now=datetime.now(UTC),
            elapsed_s=time.monotonic() - began,
            counts=count() if count else None,
        )
        yield snapshot
        if snapshot.is_last or snapshot.elapsed_s > _LIMIT_S:
            return
        time.sleep(_INTERVAL_S)


def by_assignment(bots: Sequence[Bot]) -> list[Bot]:
    """The bots that got a slot, in the order of their assignment."""
    assigned = ((bot.assigned_at, bot.id, bot) for bot in bots if bot.assigned_at is not None)
    return [bot for _, _, bot in sorted(assigned)]


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()


def _send(client: Client, bot: DemoBot) -> int:
    return client.create(
        "https://meet.google.com/dem-obot-ool",
        display_name=bot.name,
        priority=bot.priority,
        bot_data=bot.data,
    ).id
