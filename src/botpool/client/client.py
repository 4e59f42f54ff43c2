"""The client: calls for users (bots) and for operators (slots, pools, changes)."""

import json
import math
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

import httpx

from botpool.client import errors
from botpool.client.bot_data import BotDataCalls
from botpool.client.connection import TIMEOUT_S, Connection, Response
from botpool.client.records import (
    AuditEntry,
    Bot,
    Change,
    Event,
    Page,
    Plan,
    Pool,
    QueueEntry,
    RecoveryResult,
    Reset,
    Slot,
    SlotEvent,
)
from botpool.client.stream import ChangeStream, OnState
from botpool.client.webhooks import WebhookCalls
from botpool.domain.states import FINAL

T = TypeVar("T")
_PAGE = 200
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 1.0
_LONGEST_OUTAGE_S = 60.0
_POOL_NAME = re.compile(r"[A-Za-z0-9-]+")


class Client(BotDataCalls, WebhookCalls):
    """A client for one server and one API key. Use it from one thread at a time.

    Without arguments, the client reads BOTPOOL_URL and BOTPOOL_API_KEY from the environment.
    `attempts` is how often a call is sent while the connection fails.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        attempts: int = _ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        url = url or os.environ.get("BOTPOOL_URL", "http://127.0.0.1:8700")
        key = key or os.environ.get("BOTPOOL_API_KEY")
        if not key or not all("!" <= each <= "~" for each in key):
            raise ValueError("Give the API key, or set BOTPOOL_API_KEY: visible ASCII characters.")

        self._connect = partial(Connection, url, key, attempts=attempts, transport=transport)
        self._connection = self._connect()
        self._response: Response | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def response(self) -> Response:
        """The server's response to the last call that returned records."""
        if self._response is None:
            raise ValueError("The client has sent no call yet.")
        return self._response

    # Bots.

    def create(
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
    ) -> Bot:
        """Send a bot into a meeting, now or at `join_at` (a time with a zone).

        The same `idempotency_key` again returns the same bot. Without a key, each call creates one.
        """
        body = _without_none(
            meetingUrl=meeting_url,
            botDisplayName=display_name,
            platform=platform,
            queueTimeoutMs=queue_timeout_ms,
            priority=priority,
            botData=bot_data,
            joinAt=_moment(join_at),
            expectedDurationMs=expected_duration_ms,
            requireReservation=require_reservation,
        )
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key or uuid.uuid4().hex,
        }
        if correlation_id is not None:
            headers["X-Correlation-ID"] = correlation_id
        return self._bot("POST", "/v1/bots", content=_to_json(body), headers=headers)

    def get(self, bot_id: int) -> Bot:
        return self._bot("GET", f"/v1/bots/{bot_id}")

    def update(
        self,
        bot_id: int,
        *,
        join_at: datetime | None = None,
        priority: int | None = None,
        display_name: str | None = None,
    ) -> Bot:
        """Change a bot before its start; raises `Conflict` if it is too late."""
        body = _without_none(
            joinAt=_moment(join_at), priority=priority, botDisplayName=display_name
        )
        headers = {"Content-Type": "application/json"}
        return self._bot("PATCH", f"/v1/bots/{bot_id}", content=_to_json(body), headers=headers)

    def stop(self, bot_id: int) -> Bot:
        """Cancel a bot that waits or deploys; ask a running bot to leave."""
        return self._bot("DELETE", f"/v1/bots/{bot_id}")

    def wait(
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
        first = self.get(bot) if isinstance(bot, int) else bot
        for found in self._poll(first, lambda: self.get(first.id), deadline):
            if on_poll is not None:
                on_poll(found)
            if found.status in until:
                return found
            if found.is_final:
                raise errors.BotEnded(found)
            if time.monotonic() >= deadline:
                raise errors.WaitedTooLong(found, time.monotonic() - began)
        raise AssertionError("unreachable: polling has no end")

    def bots(
        self,
        *,
        status: str | None = None,
        platform: str | None = None,
        search: str | None = None,
        container_id: str | None = None,
        slot_name: str | None = None,
        tenant: str | None = None,
    ) -> Iterator[Bot]:
        """All matching bots, newest first. The client requests pages as they are needed.

        `container_id` and `slot_name` select the bots that ran there, the current one first.
        """
        return _all_of(
            partial(
                self.bots_page,
                status=status,
                platform=platform,
                search=search,
                container_id=container_id,
                slot_name=slot_name,
                tenant=tenant,
            )
        )

    def bots_page(
        self,
        *,
        status: str | None = None,
        platform: str | None = None,
        search: str | None = None,
        container_id: str | None = None,
        slot_name: str | None = None,
        tenant: str | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[Bot]:
        """One page of the matching bots, newest first."""
        chosen = {
            "status": status,
            "platform": platform,
            "search": search,
            "containerId": container_id,
            "slotName": slot_name,
            "tenant": tenant,
        }
        return self._page(Bot, "/v1/bots", "bots", **chosen, limit=limit, cursor=cursor)

    def events(self, bot_id: int) -> Iterator[Event]:
        """A bot's history, oldest first."""
        return _all_of(partial(self.events_page, bot_id))

    def events_page(
        self,
        bot_id: int,
        *,
        order: str | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[Event]:
        """One page of a bot's history; `order` is `oldest` (first) or `newest`."""
        path = f"/v1/bots/{bot_id}/events"
        return self._page(Event, path, "events", order=order, limit=limit, cursor=cursor)

    def logs(
        self, bot_id: int, *, tail: int | None = None, follow: bool = False
    ) -> Iterator[bytes]:
        """The output of a bot's container, in parts; with `follow`, until the container ends."""
        params = _without_none(tail=tail, follow="true" if follow else None)
        # A container may write nothing for any length of time.
        timeout_s = None if follow else TIMEOUT_S
        path = f"/v1/bots/{bot_id}/logs"
        with self._connection.stream(path, params=params, read_timeout_s=timeout_s) as response:
            yield from response.iter_bytes()

    def queue(
        self, *, platform: str | None = None, tenant: str | None = None
    ) -> Iterator[QueueEntry]:
        """The bots that wait for a slot, in the order in which they get one."""
        return _all_of(partial(self.queue_page, platform=platform, tenant=tenant))

    def queue_page(
        self,
        *,
        platform: str | None = None,
        tenant: str | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[QueueEntry]:
        """One page of the bots that wait for a slot."""
        chosen = {"platform": platform, "tenant": tenant, "limit": limit, "cursor": cursor}
        return self._page(QueueEntry, "/v1/queue", "queue", **chosen)

    # Slots, pools and changes: these calls need a key with scope `operator`.

    def audit_page(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        tenant: str | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        """One page of the audit log, newest first."""
        chosen = {"actor": actor, "action": action, "target": target, "tenant": tenant}
        more = {"limit": limit, "cursor": cursor}
        return self._page(AuditEntry, "/v1/audit", "entries", **chosen, **more)

    def slots(
        self,
        *,
        platform: str | None = None,
        status: str | None = None,
        container_id: str | None = None,
        bot_id: int | None = None,
    ) -> Iterator[Slot]:
        """Slots by pool and number; or the slot that has a container or a bot now."""
        return _all_of(
            partial(
                self.slots_page,
                platform=platform,
                status=status,
                container_id=container_id,
                bot_id=bot_id,
            )
        )

    def slots_page(
        self,
        *,
        platform: str | None = None,
        status: str | None = None,
        container_id: str | None = None,
        bot_id: int | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[Slot]:
        """One page of the matching slots, by pool and number."""
        chosen = {
            "platform": platform,
            "status": status,
            "containerId": container_id,
            "botId": bot_id,
        }
        return self._page(Slot, "/v1/slots", "slots", **chosen, limit=limit, cursor=cursor)

    def slot(self, slot_id: int) -> Slot:
        return self._slot("GET", slot_id)

    def slot_history(self, slot_id: int) -> Iterator[SlotEvent]:
        """A slot's transitions, newest first."""
        return _all_of(partial(self.slot_history_page, slot_id))

    def slot_history_page(
        self, slot_id: int, *, limit: int = _PAGE, cursor: str | None = None
    ) -> Page[SlotEvent]:
        """One page of a slot's transitions, newest first."""
        path = f"/v1/slots/{slot_id}/history"
        return self._page(SlotEvent, path, "events", limit=limit, cursor=cursor)

    def cordon_slot(self, slot_id: int) -> Slot:
        """Let a slot finish its bot and take no other."""
        return self._slot("POST", slot_id, "/cordon")

    def uncordon_slot(self, slot_id: int) -> Slot:
        return self._slot("POST", slot_id, "/uncordon")

    def release_slot(self, slot_id: int, *, force: bool = False, bot_id: int | None = None) -> Slot:
        """Take a slot from its bot, which fails with code `operator`.

        `force` releases a slot whose stop cannot be confirmed; its container may still run. It
        needs a key with scope `admin`. `bot_id` refuses the release if the slot has another bot.
        """
        params = {"force": "true"} if force else {}
        if bot_id is not None:
            params["botId"] = str(bot_id)
        return self._slot("POST", slot_id, "/release", repeatable=False, params=params)

    def recover_slot(self, slot_id: int) -> Slot:
        """Reset a slot now."""
        return self._slot("POST", slot_id, "/recover", repeatable=False)

    def delete_slot(self, slot_id: int, *, force: bool = False) -> Slot:
        """Delete a slot and its container; a slot with a live bot only with `force`."""
        params = {"force": "true"} if force else {}
        return self._slot("DELETE", slot_id, repeatable=False, params=params)

    def pools(self) -> list[Pool]:
        return self._list(Pool, "/v1/pools", "pools")

    def pool(self, platform: str) -> Pool:
        return self._pool("GET", platform)

    def plan(
        self, platform: str, *, replay_s: float, slo: float, within_s: float, timezone: str = "UTC"
    ) -> Plan:
        """Replay the recorded bots of a pool under other warm floors."""
        parameters = {
            "replayMs": round(replay_s * 1000),
            "slo": slo,
            "withinMs": round(within_s * 1000),
            "timezone": timezone,
        }
        path = f"{self._pool_path(platform)}/plan"
        return self._request("GET", path, params=parameters).parse_record(Plan, "plan")

    def drain_pool(self, platform: str) -> Pool:
        """Cordon all slots of a pool and admit no new bots to it."""
        return self._pool("POST", platform, "/drain")

    def undrain_pool(self, platform: str) -> Pool:
        return self._pool("POST", platform, "/undrain")

    def wait_until_drained(
        self, pool: Pool, *, on_poll: Callable[[Pool], None] | None = None
    ) -> Pool:
        """Poll a drained pool until none of its slots has a bot.

        Raises `Conflict` if the pool is undrained meanwhile. Tolerates a server that restarts.
        """
        for found in self._poll(pool, lambda: self.pool(pool.platform)):
            if not found.drained:
                raise errors.Conflict(
                    409, f"Pool {pool.platform} is open: an operator undrained it."
                )
            if on_poll is not None:
                on_poll(found)
            if not found.slots_with_bot:
                return found
        raise AssertionError("unreachable: polling has no end")

    def recover(self) -> RecoveryResult:
        """Run the recovery pass now."""
        return self._request("POST", "/v1/maintenance/recover").parse_record(RecoveryResult)

    def changes(
        self, *, after: str | None = None, on_state: OnState | None = None
    ) -> Iterator[Change | Reset]:
        """Every change as it happens, without end.

        The stream has a connection of its own, so another thread may read it. It reconnects after
        a failure and continues where it was. `after` is the `cursor` of a change that was read
        earlier. `on_state` receives None when the stream connects and the problem when it fails.
        """
        connection = self._connect()
        try:
            yield from ChangeStream(connection=connection, cursor=after, on_state=on_state)
        finally:
            connection.close()

    def _request(self, method: str, path: str, **request: Any) -> Response:
        self._response = self._connection.request(method, path, **request)
        return self._response

    def _list(self, kind: type[T], path: str, part: str, **params: Any) -> list[T]:
        """Get the records in a part of the response. Parameters that are None are not sent."""
        response = self._request("GET", path, params=_without_none(**params))
        return response.parse_records(kind, part)

    def _page(self, kind: type[T], path: str, part: str, **params: Any) -> Page[T]:
        listed = self._list(kind, path, part, **params)
        return Page(items=listed, next_cursor=self.response.body.get("nextCursor"))

    def _bot(self, method: str, path: str, **request: Any) -> Bot:
        response = self._request(method, path, **request)
        return response.parse_record(
            Bot,
            "bot",
            queue_position=response.body.get("queuePosition"),
            estimated_wait_ms=response.body.get("estimatedWaitMs"),
            warning=response.body.get("warning"),
            progress=response.body.get("progress"),
            last_media_at=response.body.get("lastMediaAt"),
        )

    def _slot(self, method: str, slot_id: int, action: str = "", **request: Any) -> Slot:
        return self._request(method, f"/v1/slots/{slot_id}{action}", **request).parse_record(
            Slot, "slot"
        )

    def _pool(self, method: str, platform: str, action: str = "") -> Pool:
        path = f"{self._pool_path(platform)}{action}"
        return self._request(method, path).parse_record(Pool, "pool")

    @staticmethod
    def _pool_path(platform: str) -> str:
        # A name with other characters could become another path.
        if not _POOL_NAME.fullmatch(platform):
            raise errors.NotFound(404, f"There is no pool {platform!r}.")
        return f"/v1/pools/{platform}"

    def _poll(self, result: T, call: Callable[[], T], deadline: float = math.inf) -> Iterator[T]:
        """Yield the result and repeat the call. An outage of a minute repeats the last result."""
        answered_at = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        while True:
            yield result
            time.sleep(max(min(pause_s, deadline - time.monotonic()), 0))
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            try:
                result, answered_at = call(), time.monotonic()
            except (errors.Unreachable, errors.Unavailable):
                if time.monotonic() - answered_at > _LONGEST_OUTAGE_S:
                    raise


def _all_of(get_page: Callable[..., Page[T]]) -> Iterator[T]:
    """The records of all pages. A page is requested when its first record is needed."""
    cursor = None
    while True:
        page = get_page(cursor=cursor)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return


def _to_json(body: Mapping[str, Any]) -> bytes:
    """Encode as UTF-8, the shortest form. A lone surrogate, which the server refuses, as ASCII."""
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body).encode("ascii")


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _moment(at: datetime | None) -> str | None:
    """Return a time with its offset; the server refuses a time without one."""
    if at is not None and at.tzinfo is None:
        raise ValueError("join_at needs a zone, such as datetime.now(UTC) + timedelta(hours=1)")
    return None if at is None else at.isoformat()
