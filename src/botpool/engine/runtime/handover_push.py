"""Tells the replica that holds a standby's poll that the standby has a bot.

The claim returns the owner of the poll. This replica answers its own polls, those of new bots from
memory; for the polls of another one it sends a NOTIFY after the commit, at once. Further slots for
the same owner wait only while one NOTIFY is under way. A lost notification delays the hand-over
until the owner's next read.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence

import structlog

from botpool.domain.agent_views import Handover
from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import SlotId
from botpool.store.database import Database
from botpool.store.standbys import notify_owner

_log = structlog.get_logger()
_MAX_SLOTS = 300
"""A payload of NOTIFY is limited to 8,000 bytes."""


def channel_of(owner: str) -> str:
    """Return the channel on which a replica receives hand-overs to its polls."""
    return "botpool_" + hashlib.sha256(owner.encode()).hexdigest()[:24]


class HandoverPush:
    """Sends hand-overs to the replicas that hold the polls."""

    def __init__(self, database: Database, *, owner: str) -> None:
        self.on_own: Callable[[Sequence[SlotId]], None] = lambda _: None
        """Receives slots with a bot whose poll this replica holds."""
        self.on_own_bots: Callable[[Sequence[Handover]], None] = lambda _: None
        """Receives the new bots of such slots."""
        self._database = database
        self._owner = owner
        self._waiting: dict[str, list[SlotId]] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}

    def push(self, slots: Iterable[tuple[SlotId, str]]) -> None:
        """Push slots whose claim is committed, each with the owner of its poll."""
        own: list[SlotId] = []
        for slot_id, owner in slots:
            if owner == self._owner:
                own.append(slot_id)
                continue
            self._waiting.setdefault(owner, []).append(slot_id)
            if owner not in self._senders:
                self._senders[owner] = asyncio.create_task(self._send(owner))
        if own:
            self.on_own(own)

    def push_new_bots(self, handovers: Iterable[tuple[Handover, str]]) -> None:
        """Push bots that were just admitted, each with the owner of its poll."""
        own: list[Handover] = []
        others: list[tuple[SlotId, str]] = []
        for handover, owner in handovers:
            if owner == self._owner:
                own.append(handover)
            else:
                others.append((handover.slot_id, owner))
        if own:
            self.on_own_bots(own)
        self.push(others)

    def receive(self, payload: str) -> None:
        """Take the slots of a notification."""
        if slots := [SlotId(int(each)) for each in payload.split(",") if each.isdigit()]:
            self.on_own(slots)

    async def _send(self, owner: str) -> None:
        try:
            while slots := self._waiting.pop(owner, None):
                for first in range(0, len(slots), _MAX_SLOTS):
                    part = ",".join(map(str, slots[first : first + _MAX_SLOTS]))
                    await notify_owner(self._database, channel=channel_of(owner), slots=part)
        except DatabaseUnavailable as error:
            _log.warning("handover.not_notified", problem=error.detail)
        finally:
            del self._senders[owner]
