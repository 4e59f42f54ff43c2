"""The play: bots are sent, and looked at until all have ended and all slots are free."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from botpool.cli import shapes
from botpool.cli.client import Client
from botpool.cli.demo.cast import Part
from botpool.cli.demo.emulated import Counted
from botpool.cli.times import moment
from botpool.domain.states import FINAL, SlotStatus

_LOOK_S = 0.2
_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything at one moment, as any user and operator could see it."""

    parts: Mapping[int, Part]
    """Which bot plays which part."""
    bots: Sequence[shapes.Bot]
    slots: Sequence[shapes.Slot]
    queue: Sequence[shapes.QueueEntry]
    now: datetime
    elapsed_s: float
    counted: Counted | None = None
    """By the emulated Coolify, where the bots run on it."""

    @property
    def over(self) -> bool:
        ended = all(bot["status"] in FINAL for bot in self.bots)
        return ended and all(slot["status"] == SlotStatus.IDLE for slot in self.slots)

    def name_of(self, bot_id: int) -> str:
        return f"{bot_id} {self.parts[bot_id].name}"

    def first_in_their_slot(self) -> set[int]:
        """The bots for which a slot was made: they started cold."""
        seen: dict[str, int] = {}
        for bot in sorted(self.bots, key=assigned_at):
            if bot["slotName"] is not None:
                seen.setdefault(bot["slotName"], bot["id"])
        return set(seen.values())


def play(
    client: Client, cast: Sequence[Part], *, count: Callable[[], Counted] | None = None
) -> Iterator[Scene]:
    """Scene after scene. One that is not `over` is the last when time is up."""
    began = time.monotonic()
    parts: dict[int, Part] = {}

    def look() -> Scene:
        slots, queue, bots = client.slots(), client.queue(), client.bots(limit=500)
        return Scene(
            parts={**parts},
            bots=sorted(bots.body["bots"], key=lambda bot: bot["id"]),
            slots=slots.body["slots"],
            queue=queue.body["queue"],
            now=datetime.now(UTC),
            elapsed_s=time.monotonic() - began,
            counted=count() if count else None,
        )

    looked = began
    for part in cast:
        parts[_send(client, part)] = part
        if time.monotonic() - looked > _LOOK_S:
            yield look()
            looked = time.monotonic()
    while True:
        scene = look()
        yield scene
        if scene.over or scene.elapsed_s > _LIMIT_S:
            return
        time.sleep(_LOOK_S)


def assigned_at(bot: shapes.Bot) -> str:
    """Times of the API sort as text; who never got a slot comes first."""
    return bot["assignedAt"] or ""


def seconds_between(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return (moment(end) - moment(start)).total_seconds()


def _send(client: Client, part: Part) -> int:
    """A request as any user would send it."""
    answer = client.create_bot(
        {
            "meetingUrl": "https://meet.google.com/dem-obot-ool",
            "botDisplayName": part.name,
            "priority": part.priority,
            "botData": part.data,
        }
    )
    return answer.body["bot"]["id"]
