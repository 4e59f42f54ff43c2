"""Observing 10,000 deploying slots: slots per second, memory and calls to the backend.

Coolify is the emulator in memory; engine, backend, client and database are the product's. A
replica with 1,000 slots alternates with it and shows which figures grow.
"""

import gc
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import psutil
import psycopg
import uvloop

from bench.figures import Figure
from bench.postgres import Bench, execute
from botpool.backends.coolify import CoolifyBackend, CoolifyConfig
from botpool.backends.protocol import RequestPurpose
from botpool.domain.ids import PoolName
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.emulators.coolify import (
    EmulatedClock,
    EmulatedCoolify,
    EmulatorConfig,
)
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database
from tests.support.emulated_transport import EmulatedTransport

_MEBI = 1024 * 1024
_BOTS = (
    "INSERT INTO bots (id, pool_name, status, meeting_url, bot_display_name, bot_data, priority, "
    "queue_timeout_ms, correlation_id, attempts, assignment_id, created_at, assigned_at) "
    "SELECT n, 'google-meet', 'DEPLOYING', 'https://meet.google.com/abc-defg-hij', 'Botpool', "
    "'{}', 100, 600000, 'bench', 1, n, now(), now() FROM generate_series(1, %d) AS n"
)
_ASSIGNMENTS = (
    "INSERT INTO assignments (id, bot_id, slot_id, slot_name, pool_name, attempt, warm, "
    "assigned_at) SELECT n, n, n, 's' || n, 'google-meet', 1, false, now() "
    "FROM generate_series(1, %d) AS n"
)
_SLOT = (
    "INSERT INTO bot_pool_slots (id, pool_name, number, slot_name, backend, image, container_id, "
    "status, phase, phase_at, assigned_bot_id, assignment_id, start_allowed_at, start_issued_at, "
    "next_step_at, last_assigned_at, last_used_at) VALUES (%s, 'google-meet', %s, %s, 'coolify', "
    "'acme/bot:1', %s, 'deploying', 'starting', now(), %s, %s, now(), now(), "
    "now() + interval '1 day', now(), now())"
)


class _NoBudget:
    async def take(self, purpose: RequestPurpose, requests: int) -> None: ...

    async def pause(self, seconds: float) -> None: ...


class _Counting(httpx.AsyncBaseTransport):
    def __init__(self, emulated: EmulatedTransport) -> None:
        self._emulated = emulated
        self.calls: Counter[str] = Counter()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.calls[request.url.path] += 1
        return await self._emulated.handle_async_request(request)


class _ObservingReplica:
    """A replica that observes its slots, with the calls to the backend counted."""

    def __init__(self, replica: Replica, counting: _Counting, slots: int) -> None:
        self._replica = replica
        self._counting = counting
        self.slots = slots

    async def observe(self, count: int) -> tuple[float, float]:
        """Observe several times; return the seconds and the calls of one observation."""
        self._counting.calls.clear()
        began = time.perf_counter()
        for _ in range(count):
            await self._replica.observer.observe("coolify")
        return (time.perf_counter() - began) / count, self._counting.calls.total() / count


def measure(bench: Bench) -> list[Figure]:
    return uvloop.run(_measure(bench))


async def _measure(bench: Bench) -> list[Figure]:
    calls, few_calls, rates, mebibytes = [], [], [], []
    sizes = (100, 1_000) if bench.small else (1_000, 10_000)
    async with _slots(bench, sizes[0]) as few, _slots(bench, sizes[1]) as many:
        for replica in (few, many):
            await replica.observe(1)
        for _ in range(bench.rounds):
            few_calls.append((await few.observe(2))[1])
            seconds, call_count = await many.observe(2)
            calls.append(call_count)
            rates.append(many.slots / seconds)
            gc.collect()
            mebibytes.append(psutil.Process().memory_info().rss / _MEBI)
    detail = {
        "slots": sum(sizes),
        "slots_observed_per_s": round(statistics.median(rates)),
        "calls_per_observation": statistics.median(calls),
        "calls_per_observation_with_a_tenth": statistics.median(few_calls),
    }
    ratios = [more / fewer for more, fewer in zip(calls, few_calls, strict=True)]
    return [
        Figure(name="reconciler_rows", rounds=mebibytes, goal=300, at_most=True, detail=detail),
        Figure(name="reconciler_calls", rounds=ratios, goal=1, at_most=True),
    ]


@asynccontextmanager
async def _slots(bench: Bench, slots: int) -> AsyncIterator[_ObservingReplica]:
    url = bench.database(f"rows_{slots}")
    database = Database(url)
    await database.open()
    emulator_config = EmulatorConfig(requests_per_minute=10**9)
    world = EmulatedCoolify(emulator_config)
    counting = _Counting(EmulatedTransport(world, EmulatedClock(manual=True)))
    config = CoolifyConfig(
        url="http://coolify",
        token=emulator_config.token,
        project_uuid=emulator_config.project,
        server_uuid=emulator_config.server,
        environment_name=emulator_config.environment,
        installation_id="bench",
    )
    backend = CoolifyBackend(config, _NoBudget(), transport=counting)
    await backend.open()
    identity = Identity(owner="bench", public_url="http://127.0.0.1", agent_keys=(b"bench",))
    replica = Replica(database, {"coolify": backend}, Policy(), identity)
    spec = PoolSpec(
        pool_name=PoolName("google-meet"),
        backend="coolify",
        image="acme/bot:1",
        max_size=slots,
        heartbeats="none",
    )
    await replica.pools.configure([spec])
    _fill(url, world, config.tag, slots)
    try:
        yield _ObservingReplica(replica, counting, slots)
    finally:
        await backend.close()
        await database.close()


def _fill(url: str, world: EmulatedCoolify, tag: str, slots: int) -> None:
    """Create slots whose start was just issued, each with its application."""
    execute(url, _BOTS % slots, _ASSIGNMENTS % slots)
    rows = []
    for n in range(1, slots + 1):
        name = f"pool-google-meet-{n:03}"
        application = world.create_application(name=name, image="acme/bot", tag="1", tags=(tag,))
        rows.append((n, n, name, application.uuid, n, n))
    with psycopg.connect(url) as connection:
        connection.cursor().executemany(_SLOT, rows)
    execute(url, "VACUUM ANALYZE")
