"""The queue of status reports and events for the control plane.

The bot never waits for the network. One sender delivers the reports in order and keeps each at the
head until the control plane has answered, so an outage loses nothing and DONE never overtakes
IN_CALL.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from typing import Any

from .backoff import Backoff, until_answered
from .errors import Refused
from .transport import Transport

log = logging.getLogger(__name__)

EVENTS_PER_CALL = 100
EVENT_BYTES = 8 * 1024
WAITING_EVENTS = 1000
"""The limit of queued events; during a long outage further events are dropped, statuses never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    resource: str
    text: str
    """JSON, serialised when the report was made, so that later changes are not sent."""


class Outbox:
    """Delivers reports in order, with retries."""

    def __init__(self, transport: Transport, bot_id: int, backoff: Backoff) -> None:
        self._transport = transport
        self._path = f"/v1/agent/bots/{bot_id}"
        self._backoff = backoff
        self._waiting: deque[_Message] = deque()
        self._waiting_events = 0
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put_status(self, status: str, reason: str | None) -> None:
        body = {"status": status} if reason is None else {"status": status, "failureReason": reason}
        self._put(_Message(resource="status", text=_to_json(body)))

    def put_event(self, kind: str, data: Mapping[str, Any]) -> None:
        text = _to_json({"kind": kind, "data": dict(data)})
        if len(text.encode()) > EVENT_BYTES:
            raise ValueError(f"event {kind!r} is larger than {EVENT_BYTES} bytes")
        if self._waiting_events >= WAITING_EVENTS:
            log.warning("Event %s dropped: %d events are already queued.", kind, WAITING_EVENTS)
            return
        self._waiting_events += 1
        self._put(_Message(resource="events", text=text))

    def _put(self, message: _Message) -> None:
        if not self._closed.is_set():
            self._waiting.append(message)
            self._drained.clear()
            self._filled.set()

    def close(self) -> None:
        """Drop queued reports and accept no more: the assignment is over."""
        self._closed.set()
        self._drained.set()

    async def drained(self) -> None:
        """Wait until every report is delivered or dropped."""
        await self._drained.wait()

    async def run(self) -> None:
        """Deliver reports, one call at a time, until closed."""
        sender = asyncio.create_task(self._deliver_forever())
        try:
            await self._closed.wait()
        finally:
            sender.cancel()

    async def _deliver_forever(self) -> None:
        while True:
            await self._filled.wait()
            batch = self._next_batch()
            await self._deliver(batch)
            for message in batch:
                self._waiting.popleft()
                self._waiting_events -= message.resource == "events"
            if not self._waiting:
                self._filled.clear()
                self._drained.set()

    def _next_batch(self) -> list[_Message]:
        """Return the status at the head alone, or all events up to the next status."""
        if self._waiting[0].resource == "status":
            return [self._waiting[0]]
        events = takewhile(lambda message: message.resource == "events", self._waiting)
        return list(islice(events, EVENTS_PER_CALL))

    async def _deliver(self, batch: list[_Message]) -> None:
        resource = batch[0].resource
        texts = [message.text for message in batch]
        body = texts[0] if resource == "status" else f'{{"events":[{",".join(texts)}]}}'
        call = partial(self._transport.call, "POST", f"{self._path}/{resource}", body)
        try:
            await until_answered(call, self._backoff)
        except Refused as refusal:
            # A refused report must not end the meeting.
            log.warning("Dropped a report (%s). %s", resource, refusal)


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
