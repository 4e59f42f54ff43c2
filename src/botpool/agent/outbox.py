"""The queue of status reports and events for the control plane.

The bot never waits for the network. One sender delivers the reports in order and keeps each until
the control plane has answered, so an outage loses nothing and DONE never overtakes IN_CALL. If the
control plane limits the events (429), they wait for its Retry-After, and statuses overtake them.
"""

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from typing import Any

from .backoff import Backoff, until_answered
from .errors import Limited, Refused
from .status import FINAL
from .transport import Transport

log = logging.getLogger(__name__)

EVENTS_PER_CALL = 100
EVENT_BYTES = 8 * 1024
WAITING_EVENTS = 1000
"""The limit of queued events; during a long outage further events are dropped, statuses never."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Message:
    resource: str
    text: str
    """JSON, serialised when the report was made, so that later changes are not sent."""
    is_final: bool = False


class Outbox:
    """Delivers reports in order, with retries."""

    def __init__(self, transport: Transport, bot_id: int, backoff: Backoff) -> None:
        self._transport = transport
        self._path = f"/v1/agent/bots/{bot_id}"
        self._backoff = backoff
        self._waiting: deque[_Message] = deque()
        self._waiting_events = 0
        self._events_held_until = 0.0
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put_status(self, status: str, reason: str | None, end_reason: str | None = None) -> None:
        body = {"status": status}
        if reason is not None:
            body["failureReason"] = reason
        if end_reason is not None:
            body["endReason"] = end_reason
        self._put(_Message(resource="status", text=_to_json(body), is_final=status in FINAL))

    def put_artifact(
        self, kind: str, location: str, size_bytes: int | None, content_type: str | None
    ) -> None:
        artifact: dict[str, Any] = {"kind": kind, "location": location}
        more = {"sizeBytes": size_bytes, "contentType": content_type}
        artifact |= {name: value for name, value in more.items() if value is not None}
        self._put(_Message(resource="artifacts", text=_to_json({"artifacts": [artifact]})))

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
            if not batch:
                await self._wait_for_events_or_status()
            elif await self._deliver(batch):
                self._remove(batch)

    def _remove(self, delivered: list[_Message]) -> None:
        for message in delivered:
            self._waiting.remove(message)
            self._waiting_events -= message.resource == "events"
        if any(message.is_final for message in delivered) and self._waiting:
            # The assignment is over: the control plane would record no further event.
            log.warning("Dropped %d events that could not be delivered.", len(self._waiting))
            self._waiting.clear()
            self._waiting_events = 0
        if not self._waiting:
            self._filled.clear()
            self._drained.set()

    def _next_batch(self) -> list[_Message]:
        """Return the message at the head alone, or all events up to another message.

        While events are held, return the next other message, or nothing.
        """
        if asyncio.get_running_loop().time() < self._events_held_until:
            others = (message for message in self._waiting if message.resource != "events")
            return list(islice(others, 1))
        if self._waiting[0].resource != "events":
            return [self._waiting[0]]
        events = takewhile(lambda message: message.resource == "events", self._waiting)
        return list(islice(events, EVENTS_PER_CALL))

    async def _wait_for_events_or_status(self) -> None:
        """Wait until the events are no longer held, or another report arrives."""
        self._filled.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._events_held_until):
                await self._filled.wait()
        self._filled.set()

    async def _deliver(self, batch: list[_Message]) -> bool:
        """Deliver reports; False if the control plane limits events, which then wait."""
        resource = batch[0].resource
        texts = [message.text for message in batch]
        body = texts[0] if resource != "events" else f'{{"events":[{",".join(texts)}]}}'
        call = partial(self._transport.call, "POST", f"{self._path}/{resource}", body)
        try:
            if resource == "events":
                call = partial(_raise_if_limited, call)
            await until_answered(call, self._backoff)
        except Refused as refusal:
            # A refused report must not end the meeting.
            log.warning("Dropped a report (%s). %s", resource, refusal)
        except _EventsLimited as limited:
            log.warning("Events wait for %.0f s. %s", limited.retry_after_s, limited.detail)
            loop = asyncio.get_running_loop()
            self._events_held_until = loop.time() + limited.retry_after_s
            return False
        return True


@dataclass(eq=False)
class _EventsLimited(Exception):
    """The control plane accepts no events for now. Not an outage: statuses are delivered."""

    detail: str
    retry_after_s: float


async def _raise_if_limited(call: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Call once, and raise a refusal because of a limit as an error that is not retried at once."""
    try:
        return await call()
    except Limited as limited:
        raise _EventsLimited(str(limited), max(limited.retry_after_s, 1.0)) from limited


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
