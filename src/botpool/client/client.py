"""The client: one server, one key."""

import math
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Self

import httpx

from botpool.client.connection import TIMEOUT, Connection, silent_for
from botpool.client.errors import BotEnded, Unavailable, Unreachable, WaitedTooLong
from botpool.client.records import Bot, Change, Event, Reset, read
from botpool.client.stream import ChangeStream, OnState
from botpool.domain.states import FINAL

_PAGE = 200
_FIRST_LOOK_S = 0.25
_LONGEST_LOOK_S = 2.0
_PATIENCE_S = 60.0
"""How long a server may be away in the middle of a wait."""


class Client:
    """Send bots, see them, stop them. Use it as a context manager, from one thread at a time.

    Without arguments it takes BOTPOOL_URL and BOTPOOL_API_KEY from the environment.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        url = url or os.environ.get("BOTPOOL_URL", "http://127.0.0.1:8700")
        key = key or os.environ.get("BOTPOOL_API_KEY")
        if not key or not all("!" <= each <= "~" for each in key):
            raise ValueError("Give the API key, or set BOTPOOL_API_KEY: visible ASCII characters.")
        self._connection = Connection(url, key, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def create(
        self,
        meeting_url: str,
        *,
        display_name: str | None = None,
        platform: str | None = None,
        queue_timeout_ms: int | None = None,
        priority: int | None = None,
        bot_data: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
    ) -> Bot:
        """Send a bot into a meeting.

        With the same `idempotency_key` again, the same bot; without one, each call has its own.
        """
        wanted = {
            "meetingUrl": meeting_url,
            "botDisplayName": display_name,
            "platform": platform,
            "queueTimeoutMs": queue_timeout_ms,
            "priority": priority,
            "botData": bot_data,
        }
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        if correlation_id is not None:
            headers["X-Correlation-ID"] = correlation_id
        body = {name: value for name, value in wanted.items() if value is not None}
        return _bot(self._connection.ask("POST", "/v1/bots", "bot", json=body, headers=headers))

    def get(self, bot_id: int) -> Bot:
        return _bot(self._connection.ask("GET", f"/v1/bots/{bot_id}", "bot"))

    def stop(self, bot_id: int) -> Bot:
        """Cancelled while it waits or deploys, asked to leave once it runs."""
        return _bot(self._connection.ask("DELETE", f"/v1/bots/{bot_id}", "bot"))

    def wait(
        self,
        bot_id: int,
        until: Collection[str] = FINAL,
        *,
        timeout_s: float | None = None,
        on_look: Callable[[Bot], None] | None = None,
    ) -> Bot:
        """The bot once it has one of these statuses; by default, once it has ended.

        `BotEnded` if it ended otherwise, `WaitedTooLong` after `timeout_s`. A server that restarts
        in the meantime is waited for. `on_look` is told the bot whenever it was asked for.
        """
        began = heard = time.monotonic()
        pause_s = _FIRST_LOOK_S
        bot = self.get(bot_id)
        while True:
            if on_look is not None:
                on_look(bot)
            if bot.status in until:
                return bot
            if bot.is_final:
                raise BotEnded(bot)
            left_s = math.inf if timeout_s is None else began + timeout_s - time.monotonic()
            if left_s <= 0:
                raise WaitedTooLong(bot, time.monotonic() - began)
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LONGEST_LOOK_S)
            try:
                bot, heard = self.get(bot_id), time.monotonic()
            except (Unreachable, Unavailable):
                if time.monotonic() - heard > _PATIENCE_S:
                    raise

    def bots(
        self,
        *,
        status: str | None = None,
        platform: str | None = None,
        search: str | None = None,
    ) -> Iterator[Bot]:
        """All bots that match, newest first. Pages are asked for as they are needed."""
        filters = {"status": status, "platform": platform, "search": search}
        given: dict[str, Any] = {name: text for name, text in filters.items() if text is not None}
        given["limit"] = _PAGE
        while True:
            page = self._connection.ask("GET", "/v1/bots", "bots", params=given)
            for body in page["bots"]:
                yield read(Bot, body)
            if (more := page.get("nextCursor")) is None:
                return
            given["cursor"] = more

    def events(self, bot_id: int) -> list[Event]:
        """What happened to a bot, oldest first."""
        answer = self._connection.ask("GET", f"/v1/bots/{bot_id}/events", "events")
        return [read(Event, body) for body in answer["events"]]

    def logs(
        self, bot_id: int, *, tail: int | None = None, follow: bool = False
    ) -> Iterator[bytes]:
        """The output of a bot's container, in parts; with `follow`, until it ends."""
        params = {"follow": "true" if follow else "false"}
        if tail is not None:
            params["tail"] = str(tail)
        # What is followed may be quiet for as long as it likes.
        timeout = silent_for(None) if follow else TIMEOUT
        path = f"/v1/bots/{bot_id}/logs"
        with self._connection.stream(path, params=params, timeout=timeout) as response:
            yield from response.iter_bytes()

    def changes(
        self, *, after: str | None = None, on_state: OnState | None = None
    ) -> Iterator[Change | Reset]:
        """Every change as it happens, without end; needs a key with scope `operator`.

        A lost connection is made again, and goes on where it was. `after` is the `cursor` of a
        change that was read earlier. `on_state` is told None whenever the stream is live, and why
        it is not whenever it is lost.
        """
        stream = ChangeStream(connection=self._connection, cursor=after)
        if on_state is not None:
            stream.on_state = on_state
        return iter(stream)


def _bot(answer: Mapping[str, Any]) -> Bot:
    return read(
        Bot,
        answer["bot"],
        queue_position=answer.get("queuePosition"),
        estimated_wait_ms=answer.get("estimatedWaitMs"),
    )
