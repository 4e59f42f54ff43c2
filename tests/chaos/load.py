"""A client that never gives up, its bots, and what they saw themselves."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from tests.chaos.witness_bot import WITNESSES
from tests.support.server import Installation, none_left

BETWEEN_POSTS_S = 0.25
POSTERS = 3


@dataclass(slots=True)
class Poster:
    """Posts bots all the time, several at once, and repeats what was not answered, as clients do.

    It has the addresses of all replicas: when one does not answer, it asks the next.
    """

    users: Sequence[httpx.AsyncClient]
    accepted: dict[str, int] = field(default_factory=dict)
    """By idempotency key."""
    refusals: list[httpx.Response] = field(default_factory=list)
    unanswered: int = 0
    enough: bool = False

    async def post_until_enough(self) -> None:
        numbers = itertools.count(1)

        async def one_after_the_other() -> None:
            while not self.enough:
                await self.post(f"meeting-{next(numbers)}")
                await asyncio.sleep(BETWEEN_POSTS_S)

        await asyncio.gather(*(one_after_the_other() for _ in range(POSTERS)))

    async def post(self, key: str) -> None:
        body = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}
        for user in itertools.cycle(self.users):
            try:
                answer = await user.post("/v1/bots", json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                self.unanswered += 1
            else:
                if answer.status_code in (200, 201):
                    self.accepted[key] = answer.json()["bot"]["id"]
                    return
                self.refusals.append(answer)
            await asyncio.sleep(BETWEEN_POSTS_S)

    async def has_posted(self, count: int) -> None:
        async def missing() -> range:
            return range(len(self.accepted), count)

        await none_left("bots that should be accepted", missing, within_s=60)


async def bots_of(users: Sequence[httpx.AsyncClient]) -> list[tuple[int, str]]:
    """All bots and their statuses, from whichever replica answers."""
    for user in users:
        with suppress(httpx.TransportError):
            answer = await user.get("/v1/bots", params={"limit": 500})
            assert answer.status_code == 200, answer.text
            assert answer.json().get("nextCursor") is None
            return [(bot["id"], bot["status"]) for bot in answer.json()["bots"]]
    raise AssertionError("no replica answers")


async def not_idle(installed: Installation) -> list[tuple[str, ...]]:
    return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")


def witnessed(installed: Installation) -> list[str]:
    written = installed.data_dir / WITNESSES
    return written.read_text().splitlines() if written.exists() else []


async def bots_in_call(installed: Installation, count: int) -> None:
    async def missing() -> range:
        found = sum(line.startswith("joined ") for line in witnessed(installed))
        return range(found, count)

    await none_left("bots missing from their meetings", missing, within_s=60)


def assert_none_joined_twice(installed: Installation, bots: set[int]) -> None:
    for event in ("started", "joined"):
        lines = [line.split() for line in witnessed(installed) if line.startswith(event)]
        runs = Counter(int(bot) for _, bot, _ in lines)
        assert runs == dict.fromkeys(bots, 1), f"{event} other than once: {runs - Counter(bots)}"
