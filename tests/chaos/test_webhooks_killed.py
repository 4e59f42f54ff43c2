"""Webhooks while replicas are killed: one good endpoint, one slow, one that fails at random.

Every event reaches the good endpoint at least once, in order per bot and with one id, and the
failing endpoint catches up. The events come from many short transactions, as in production.
"""

import asyncio
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from tests.support.clock import Clock
from tests.support.http_server import Server, bearer, served
from tests.support.postgres import TestPostgres
from tests.support.webhook_receiver import Received, Receiver, receiving

WAIT_S = 900.0
EVENT = (
    "INSERT INTO history (kind, bot_id, reason, data) "
    "VALUES ('bot.stalled', %s, 'for a test', json_build_object('n', %s::integer))"
)
BOTS = """
INSERT INTO bots (pool_name, status, meeting_url, bot_display_name, bot_data, priority,
                  queue_timeout_ms, correlation_id, created_at, ended_at)
SELECT 'google-meet', 'CANCELLED', 'https://meet.google.com/abc', 'Botpool', '{}', 100, 0,
       'corr', botpool_now(), botpool_now()
FROM generate_series(1, %s) RETURNING id
"""


@pytest.fixture
def url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


@dataclass
class Flaky:
    """Refuses three of ten attempts, but none of an event for the sixth time."""

    attempts: Counter[str] = field(default_factory=Counter)

    def answer(self, request: Received) -> int:
        self.attempts[request.id] += 1
        drawn = random.Random(f"{request.id} {self.attempts[request.id]}").random()
        return 500 if drawn < 0.3 and self.attempts[request.id] < 6 else 204


class Replicas:
    """Replicas of one installation, of which a thread kills one after the other."""

    def __init__(self, url: str, directory: Path, stack: ExitStack) -> None:
        self._url, self._directory, self._stack = url, directory, stack
        self._number = 0
        self.running = [self.start(), self.start()]

    def start(self) -> Server:
        self._number += 1
        directory = self._directory / f"replica-{self._number}"
        directory.mkdir()
        settings = {"BOTPOOL_WEBHOOKS__ALLOW_PRIVATE_ADDRESSES": "true"}
        return self._stack.enter_context(served(self._url, directory, max_size=0, **settings))

    def kill_one(self) -> None:
        """Kill the older replica and start another."""
        killed = self.running.pop(0)
        killed.process.kill()
        killed.process.wait()
        self.running.append(self.start())


def write_events(url: str, bot_ids: list[int], events: int) -> None:
    """Write events of random bots, each in its own transaction, with numbers in order."""
    rng, numbers = random.Random(7), Counter[int]()
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(events):
            bot_id = rng.choice(bot_ids)
            numbers[bot_id] += 1
            connection.execute(EVENT, [bot_id, numbers[bot_id]])


def first_arrivals(receiver: Receiver) -> dict[int, list[int]]:
    """The numbers of each bot's events, in the order in which they were first accepted."""
    arrived: dict[int, list[int]] = defaultdict(list)
    seen = set[str]()
    for request in [*receiver.accepted]:
        if request.id not in seen:
            seen.add(request.id)
            arrived[request.bot_id].append(request.event["data"]["n"])
    return arrived


async def run(url: str, directory: Path, *, events: int, bots: int, kills: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        bot_ids = [bot_id for (bot_id,) in connection.execute(BOTS, [bots])]
    flaky = Flaky()
    async with AsyncExitStack() as receivers:
        good = await receivers.enter_async_context(receiving())
        slow = await receivers.enter_async_context(receiving(delay_s=0.2))
        failing = await receivers.enter_async_context(receiving(answer=flaky.answer))
        with ExitStack() as stack:
            replicas = await asyncio.to_thread(Replicas, url, directory, stack)
            secrets = await asyncio.to_thread(create_webhooks, replicas, [good, slow, failing])
            writer = threading.Thread(target=write_events, args=(url, bot_ids, events))
            writer.start()
            for _ in range(kills):
                await asyncio.to_thread(replicas.kill_one)
            await asyncio.to_thread(writer.join)
            async with asyncio.timeout(WAIT_S):
                while len({each.id for each in good.accepted}) < events:
                    await asyncio.sleep(0.1)
                while len({each.id for each in failing.accepted}) < events:
                    Clock(url).move(400)  # beyond the third delay of five minutes
                    await asyncio.sleep(1)
            await asyncio.to_thread(stack.close)
    expected = _counts(url)
    for receiver in (good, failing):
        arrived = first_arrivals(receiver)
        assert {bot_id: len(numbers) for bot_id, numbers in arrived.items()} == expected
        for bot_id, numbers in arrived.items():
            assert numbers == sorted(numbers), f"bot {bot_id}: {numbers}"
    by_event = defaultdict[tuple[int, int], set[str]](set)
    for request in (*good.requests, *slow.requests, *failing.requests):
        by_event[request.bot_id, request.event["data"]["n"]].add(request.id)
    assert all(len(ids) == 1 for ids in by_event.values()), "an event has several ids"
    assert slow.accepted, "the slow endpoint got nothing"
    assert sum(flaky.attempts.values()) > events, "no attempt failed"
    for receiver, secret in zip((good, slow, failing), secrets, strict=True):
        newest = receiver.requests[-1]
        Verifier(secret).verify(newest.body, dict(newest.headers))


def create_webhooks(replicas: Replicas, receivers: list[Receiver]) -> list[str]:
    server = replicas.running[0]
    headers = bearer(server.new_key("operator"))
    return [
        httpx.post(f"{server.url}/v1/webhooks", json={"url": each.url}, headers=headers).json()[
            "secret"
        ]
        for each in receivers
    ]


def _counts(url: str) -> dict[int, int]:
    query = "SELECT bot_id, count(*) FROM history WHERE kind = 'bot.stalled' GROUP BY 1"
    with psycopg.connect(url, autocommit=True) as connection:
        return dict(connection.execute(query).fetchall())


async def test_events_arrive_in_order_although_replicas_are_killed(
    url: str, tmp_path: Path
) -> None:
    await run(url, tmp_path, events=300, bots=40, kills=2)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_ten_thousand_events_arrive_although_replicas_are_killed(
    url: str, tmp_path: Path
) -> None:
    await run(url, tmp_path, events=10_000, bots=800, kills=15)
