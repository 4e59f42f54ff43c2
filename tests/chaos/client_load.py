"""A client that requests bots all the time, and checks on its bots."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from tests.chaos.recording_bot import EVENTS_FILE
from tests.support.server import Installation, none_left

POST_INTERVAL_S = 0.25
CONCURRENT_CLIENTS = 3
WAIT_LIMIT_S = 150
"""A generous limit for slow machines; only a broken test waits this long."""


@dataclass(slots=True)
class LoadClient:
    """Requests bots continuously from several tasks, and retries requests without a response.

    The client knows the addresses of all replicas: when one does not respond, it calls the next.
    """

    users: Sequence[httpx.AsyncClient]
    accepted: dict[str, int] = field(default_factory=dict)
    """Ids of the accepted bots, by idempotency key."""
    error_responses: list[httpx.Response] = field(default_factory=list)
    lost_responses: int = 0
    stopping: bool = False

    async def post_until_stopped(self) -> None:
        numbers = itertools.count(1)

        async def post_repeatedly() -> None:
            while not self.stopping:
                await self.post(f"meeting-{next(numbers)}")
                await asyncio.sleep(POST_INTERVAL_S)

        await asyncio.gather(*(post_repeatedly() for _ in range(CONCURRENT_CLIENTS)))

    async def post(self, key: str) -> None:
        body = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}
        for user in itertools.cycle(self.users):
            try:
                response = await user.post("/v1/bots", json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                self.lost_responses += 1
            else:
                if response.status_code in (200, 201):
                    self.accepted[key] = response.json()["bot"]["id"]
                    return
                self.error_responses.append(response)
            await asyncio.sleep(POST_INTERVAL_S)

    async def wait_for_accepted(self, count: int) -> None:
        async def missing() -> range:
            return range(len(self.accepted), count)

        await none_left("bots that should be accepted", missing, within_s=WAIT_LIMIT_S)


async def bots_of(users: Sequence[httpx.AsyncClient]) -> list[tuple[int, str]]:
    """Return all bots and their statuses, from the first replica that responds."""
    for user in users:
        with suppress(httpx.TransportError):
            response = await user.get("/v1/bots", params={"limit": 500})
            assert response.status_code == 200, response.text
            assert response.json().get("nextCursor") is None
            return [(bot["id"], bot["status"]) for bot in response.json()["bots"]]
    raise AssertionError("no replica responds")


async def slots_not_idle(installed: Installation) -> list[tuple[str, ...]]:
    return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")


def recorded_events(installed: Installation) -> list[str]:
    events = installed.data_dir / EVENTS_FILE
    return events.read_text().splitlines() if events.exists() else []


async def wait_for_joined(installed: Installation, count: int) -> None:
    async def missing() -> range:
        found = sum(line.startswith("joined ") for line in recorded_events(installed))
        return range(found, count)

    await none_left("bots missing from their meetings", missing, within_s=WAIT_LIMIT_S)


def assert_none_joined_twice(installed: Installation, bots: set[int]) -> None:
    for event in ("started", "joined"):
        lines = [line.split() for line in recorded_events(installed) if line.startswith(event)]
        runs = Counter(int(bot) for _, bot, _ in lines)
        assert runs == dict.fromkeys(bots, 1), f"{event} other than once: {runs - Counter(bots)}"
