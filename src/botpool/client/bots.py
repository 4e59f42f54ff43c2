"""The calls for bots and their queue."""

import math
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from botpool.client import errors
from botpool.client.calls import PAGE, Calls, moment, without_none
from botpool.client.connection import TIMEOUT_S
from botpool.client.records import Bot, Event, Page, QueueEntry, TimelineBar
from botpool.client.synchronous import Synchronous, iterated, synchronous
from botpool.domain.states import FINAL


class AsyncBotCalls(Calls):
    """Bots, their history and their output, and the queue."""

    async def create(
        self,
        meeting_url: str,
        *,
        display_name: str | None = None,
        platform: str | None = None,
        queue_timeout_ms: int | None = None,
        priority: int | None = None,
        bot_data: Mapping[str, Any] | None = None,
        join_at: datetime | None = None,
        expected_duration_ms: int | None = None,
        require_reservation: bool | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        traceparent: str | None = None,
    ) -> Bot:
        """Send a bot into a meeting, now or at `join_at` (a time with a zone).

        The same `idempotency_key` again returns the same bot. Without a key, each call creates one.
        `traceparent` is the trace that the bot continues (W3C Trace Context).
        """
        body = without_none(
            meetingUrl=meeting_url,
            botDisplayName=display_name,
            platform=platform,
            queueTimeoutMs=queue_timeout_ms,
            priority=priority,
            botData=bot_data,
            joinAt=moment(join_at),
            expectedDurationMs=expected_duration_ms,
            requireReservation=require_reservation,
        )
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        if correlation_id is not None:
            headers["X-Correlation-ID"] = correlation_id
        if traceparent is not None:
            headers["traceparent"] = traceparent
        return await self._bot("POST", "/v1/bots", body=body, headers=headers)

    async def get(self, bot_id: int) -> Bot:
        return await self._bot("GET", f"/v1/bots/{bot_id}")

    async def update(
        self,
        bot_id: int,
        *,
        join_at: datetime | None = None,
        priority: int | None = None,
        display_name: str | None = None,
    ) -> Bot:
        """Change a bot before its start; raises `Conflict` if it is too late."""
        body = without_none(joinAt=moment(join_at), priority=priority, botDisplayName=display_name)
        return await self._bot("PATCH", f"/v1/bots/{bot_id}", body=body)

    async def stop(self, bot_id: int) -> Bot:
        """Cancel a bot that waits or deploys; ask a running bot to leave."""
        return await self._bot("DELETE", f"/v1/bots/{bot_id}")

    async def wait(
        self,
        bot: Bot | int,
        until: Collection[str] = FINAL,
        *,
        timeout_s: float | None = None,
        on_poll: Callable[[Bot], None] | None = None,
    ) -> Bot:
        """Poll a bot, given by id or as a record, until it has one of these statuses.

        By default, poll until the bot has ended.

        Raises `BotEnded` if the bot ends in another status and `WaitedTooLong` after `timeout_s`.
        Tolerates a server that restarts. `on_poll` receives the bot after each poll.
        """
        began = time.monotonic()
        deadline = math.inf if timeout_s is None else began + timeout_s
        first = await self.get(bot) if isinstance(bot, int) else bot

        def is_last(found: Bot) -> bool:
            if on_poll is not None:
                on_poll(found)
            if found.status not in until and found.is_final:
                raise errors.BotEnded(found)
            if found.status not in until and time.monotonic() >= deadline:
                raise errors.WaitedTooLong(found, time.monotonic() - began)
            return found.status in until

        return await self._poll(first, lambda: self.get(first.id), is_last, deadline)

    def bots(
        self,
        *,
        status: str | None = None,
        platform: str | None = None,
        search: str | None = None,
        container_id: str | None = None,
        slot_name: str | None = None,
        tenant: str | None = None,
    ) -> AsyncGenerator[Bot, None]:
        """All matching bots, newest first. The client requests pages as they are needed.

        `container_id` and `slot_name` select the bots that ran there, the current one first.
        """
        chosen = _chosen(status, platform, search, container_id, slot_name, tenant)
        return self._pages(Bot, "/v1/bots", "bots", **chosen)

    async def bots_page(
        self,
        *,
        status: str | None = None,
        platform: str | None = None,
        search: str | None = None,
        container_id: str | None = None,
        slot_name: str | None = None,
        tenant: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Page[Bot]:
        """One page of the matching bots, newest first."""
        chosen = _chosen(status, platform, search, container_id, slot_name, tenant)
        return await self._page(Bot, "/v1/bots", "bots", **chosen, limit=limit, cursor=cursor)

    def events(self, bot_id: int) -> AsyncGenerator[Event, None]:
        """A bot's history, oldest first."""
        return self._pages(Event, f"/v1/bots/{bot_id}/events", "events")

    async def events_page(
        self,
        bot_id: int,
        *,
        order: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Page[Event]:
        """One page of a bot's history; `order` is `oldest` (first) or `newest`."""
        path = f"/v1/bots/{bot_id}/events"
        return await self._page(Event, path, "events", order=order, limit=limit, cursor=cursor)

    async def timeline(self, bot_id: int) -> list[TimelineBar]:
        """The phases of a bot with their times, oldest first."""
        return await self._list(TimelineBar, f"/v1/bots/{bot_id}/timeline", "phases")

    async def logs(
        self, bot_id: int, *, tail: int | None = None, follow: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """The output of a bot's container, in parts; with `follow`, until the container ends."""
        params = without_none(tail=tail, follow="true" if follow else None)
        # A container may write nothing for any length of time.
        timeout_s = None if follow else TIMEOUT_S
        path = f"/v1/bots/{bot_id}/logs"
        async with self._connection.stream(path, params=params, read_timeout_s=timeout_s) as parts:
            async for part in parts:
                yield part

    def queue(
        self, *, platform: str | None = None, tenant: str | None = None
    ) -> AsyncGenerator[QueueEntry, None]:
        """The bots that wait for a slot, in the order in which they get one."""
        return self._pages(QueueEntry, "/v1/queue", "queue", platform=platform, tenant=tenant)

    async def queue_page(
        self,
        *,
        platform: str | None = None,
        tenant: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Page[QueueEntry]:
        """One page of the bots that wait for a slot."""
        chosen = {"platform": platform, "tenant": tenant, "limit": limit, "cursor": cursor}
        return await self._page(QueueEntry, "/v1/queue", "queue", **chosen)

    async def _bot(self, method: str, path: str, **request: Any) -> Bot:
        response = await self._request(method, path, **request)
        return response.parse_record(
            Bot,
            "bot",
            queue_position=response.body.get("queuePosition"),
            estimated_wait_ms=response.body.get("estimatedWaitMs"),
            warning=response.body.get("warning"),
            progress=response.body.get("progress"),
            last_media_at=response.body.get("lastMediaAt"),
        )


class BotCalls(Synchronous):
    """The synchronous calls for bots and their queue."""

    create = synchronous(AsyncBotCalls.create)
    get = synchronous(AsyncBotCalls.get)
    update = synchronous(AsyncBotCalls.update)
    stop = synchronous(AsyncBotCalls.stop)
    wait = synchronous(AsyncBotCalls.wait)
    bots = iterated(AsyncBotCalls.bots)
    bots_page = synchronous(AsyncBotCalls.bots_page)
    events = iterated(AsyncBotCalls.events)
    events_page = synchronous(AsyncBotCalls.events_page)
    timeline = synchronous(AsyncBotCalls.timeline)
    logs = iterated(AsyncBotCalls.logs)
    queue = iterated(AsyncBotCalls.queue)
    queue_page = synchronous(AsyncBotCalls.queue_page)


def _chosen(
    status: str | None,
    platform: str | None,
    search: str | None,
    container_id: str | None,
    slot_name: str | None,
    tenant: str | None,
) -> dict[str, str | None]:
    return {
        "status": status,
        "platform": platform,
        "search": search,
        "containerId": container_id,
        "slotName": slot_name,
        "tenant": tenant,
    }
