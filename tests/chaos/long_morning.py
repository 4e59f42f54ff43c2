"""A morning of chaos on emulated time: what comes, what breaks, and what is left of it.

The pieces are those of `tests/simulation`: the real engine and backend, an emulated Coolify with
agents in its containers. Here everything breaks at once: requests, platform, replicas, agents, and
the real PostgreSQL under them, which is killed in the middle of whatever is being written.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import BotId
from botpool.emulators.coolify import EmulatorConfig
from tests.simulation.morning import QUARTER_LAG_S, QUARTER_POLICY, TICK_S, Morning
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.replicas import bot_request, key

BUSY = EmulatorConfig(
    first_start_s=60.0,
    start_s=10.0,
    stop_s=(1.0, 8.0),
    delete_s=(1.0, 5.0),
    status_lag_s=(0.0, 15.0),
    health_lag_s=(0.0, 90.0),
    concurrent_builds=40,
    queue_limit=200,
    workers=40,
    requests_per_minute=2000,
)
"""A Coolify that fifty bots a minute are not too many for; its times are a quarter of the usual."""


@dataclass
class Chaos:
    morning: Morning
    postgres: TestPostgres
    chance: random.Random
    accepted: dict[str, BotId] = field(default_factory=dict)
    """By the keys of a client that repeats what was not answered."""
    wanted: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    """How often what was done to them."""

    async def tick(self, seconds: float = TICK_S) -> None:
        """Whatever is cut off by an outage is not made up for: the next tick finds it."""
        with suppress(DatabaseUnavailable):
            await self.morning.tick(seconds)

    async def until(self, reached: Callable[[], bool], *, within_s: float) -> None:
        ends_at = self.morning.now + within_s
        while not reached():
            assert self.morning.now < ends_at, Counter(self.morning.statuses().values())
            await self.tick(10)

    async def post(self, count: int) -> None:
        posted = len(self.accepted) + len(self.wanted)
        self.wanted += [f"meeting-{posted + n}" for n in range(count)]
        replica = self.chance.choice(self.morning.living).replica
        for name in list(self.wanted):
            request = bot_request(queue_timeout_ms=600_000)
            with suppress(DatabaseUnavailable):
                admitted = await replica.admission.admit(request, key(name))
                self.accepted[name] = admitted.bot.id
                self.wanted.remove(name)

    def break_the_platform(self) -> None:
        often, sometimes = {"times": self.chance.randint(1, 5)}, {"probability": 0.1}
        faults: dict[str, Any] = {
            "refuseConnection": {"seconds": 30},
            "resetConnection": {**sometimes, "worked": self.chance.random() < 0.5},
            "halfAnswer": sometimes,
            "badGateway": {**sometimes, "worked": self.chance.random() < 0.5},
            "serverError": {**sometimes, "worked": self.chance.random() < 0.5},
            "rateLimited": {"probability": 0.02, "retryAfter": 15},
            "phantomUuid": often,
            "hangInProgress": often,
            "pullFails": often,
            "stopDoesNothing": often,
            "stopLies": often,
            "cancelLeavesRunning": True,
            "reportStatus": {"status": "degraded:unhealthy", **often},
            "serverUnreachable": True,
            "restartCoolify": True,
        }
        chosen = self.chance.sample(sorted(faults), self.chance.randint(1, 3))
        self.morning.world.set_faults({"clear": True})
        self.morning.world.set_faults({name: faults[name] for name in chosen})
        self.done["platform broken"] += 1

    def kill_a_replica(self) -> None:
        line = self.chance.choice(self.morning.living).line
        line.dies_in, line.dies_before = self.chance.randint(1, 8), self.chance.random() < 0.5
        self.done["replica killed"] += 1

    def lose_an_agent(self) -> None:
        """One dies, or hangs: it is there, and does nothing any more."""
        if running := self.morning.bots.running:
            agent = self.chance.choice(running)
            if self.chance.random() < 0.7:
                agent.running = False
                self.done["agent died"] += 1
            else:
                agent.acts_at = float("inf")
                self.done["agent hung"] += 1

    async def kill_postgres(self) -> None:
        """While replicas and agents are at it; time goes on without it for half a minute."""
        working = asyncio.create_task(self.tick())
        await asyncio.sleep(self.chance.uniform(0, 0.2))
        await asyncio.to_thread(self.postgres.kill)
        await asyncio.to_thread(self.postgres.restart)
        with suppress(psycopg.OperationalError):
            await working
        self.morning.emulated_clock.advance(30)
        self.morning.world.advance(self.morning.now)
        self.morning.eye.close()
        self.morning.eye = psycopg.connect(self.morning.url, autocommit=True, row_factory=dict_row)
        self.done["PostgreSQL killed"] += 1

    async def end(self) -> None:
        """Nothing is broken any more: everything comes to its end."""
        self.morning.world.set_faults({"clear": True})
        for living in self.morning.living:
            living.line.dies_in = None
        while self.wanted:
            await self.post(0)
        await self.until(self.morning.all_ended, within_s=6000)
        # Whoever a stop never reached learns of it at its next beat.
        await self.tick(15)
        await self.until(self.morning.is_tidy, within_s=2000)

    def account(self) -> Counter[str]:
        """Every bot that was accepted, by how it ended."""
        morning, bots = self.morning, self.morning.bots
        assert_settled(morning.url)
        rows = morning.rows("SELECT id, status, failure_code, failure_reason FROM bots")
        assert {row["id"] for row in rows} == set(self.accepted.values()), "lost, or made twice"
        assert all(row["failure_reason"] for row in rows if row["status"] == "FAILED")
        assert max(bots.started.values()) == 1, "started twice"
        assert not {b: joins for b, joins in bots.joined.items() if len(joins) > 1}, "joined twice"
        assert not bots.running, "left running"
        assert morning.is_tidy(), "applications left over, or lost"
        assert max(morning.requests_by_minute()) <= BUSY.requests_per_minute
        return Counter(row["failure_code"] or row["status"] for row in rows)


POLICY, LAG_S = QUARTER_POLICY, QUARTER_LAG_S
