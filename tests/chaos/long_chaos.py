"""Random faults on a Coolify simulation: requests, Coolify, replicas, agents and PostgreSQL.

The engine, the Coolify backend and PostgreSQL are real; Coolify is emulated, with simulated agents
in its containers. PostgreSQL is killed during writes.
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
from tests.simulation.coolify_simulation import (
    FAST_POLICY,
    FAST_STATUS_LAG_S,
    TICK_S,
    CoolifySimulation,
)
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
"""A Coolify with capacity for fifty bots a minute, and a quarter of the usual times."""


@dataclass
class Chaos:
    simulation: CoolifySimulation
    postgres: TestPostgres
    rng: random.Random
    accepted: dict[str, BotId] = field(default_factory=dict)
    """Accepted bots by idempotency key; the client repeats requests without a response."""
    unconfirmed: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """How often each fault happened."""

    async def tick(self, seconds: float = TICK_S) -> None:
        """Advance the simulation. After an outage the next tick continues the work."""
        with suppress(DatabaseUnavailable):
            await self.simulation.tick(seconds)

    async def until(self, reached: Callable[[], bool], *, within_s: float) -> None:
        ends_at = self.simulation.now + within_s
        while not reached():
            assert self.simulation.now < ends_at, Counter(self.simulation.statuses().values())
            await self.tick(10)

    async def post(self, count: int) -> None:
        posted = len(self.accepted) + len(self.unconfirmed)
        self.unconfirmed += [f"meeting-{posted + n}" for n in range(count)]
        replica = self.rng.choice(self.simulation.replicas).replica
        for name in list(self.unconfirmed):
            request = bot_request(queue_timeout_ms=600_000)
            with suppress(DatabaseUnavailable):
                admitted = await replica.admission.admit(request, key(name))
                self.accepted[name] = admitted.bot.id
                self.unconfirmed.remove(name)

    def break_coolify(self) -> None:
        often, sometimes = {"times": self.rng.randint(1, 5)}, {"probability": 0.1}
        faults: dict[str, Any] = {
            "refuseConnection": {"seconds": 30},
            "resetConnection": {**sometimes, "worked": self.rng.random() < 0.5},
            "halfAnswer": sometimes,
            "badGateway": {**sometimes, "worked": self.rng.random() < 0.5},
            "serverError": {**sometimes, "worked": self.rng.random() < 0.5},
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
        chosen = self.rng.sample(sorted(faults), self.rng.randint(1, 3))
        self.simulation.coolify.set_faults({"clear": True})
        self.simulation.coolify.set_faults({name: faults[name] for name in chosen})
        self.counts["Coolify broken"] += 1

    def kill_replica(self) -> None:
        transport = self.rng.choice(self.simulation.replicas).transport
        transport.crashes_in, transport.crashes_before_request = (
            self.rng.randint(1, 8),
            self.rng.random() < 0.5,
        )
        self.counts["replica killed"] += 1

    def break_agent(self) -> None:
        """Stop or hang a random agent."""
        if running := self.simulation.bots.running:
            agent = self.rng.choice(running)
            if self.rng.random() < 0.7:
                agent.running = False
                self.counts["agent died"] += 1
            else:
                agent.acts_at = float("inf")
                self.counts["agent hung"] += 1

    async def kill_postgres(self) -> None:
        """Kill PostgreSQL during a tick; half a minute passes before the next one."""
        working = asyncio.create_task(self.tick())
        await asyncio.sleep(self.rng.uniform(0, 0.2))
        await asyncio.to_thread(self.postgres.kill)
        await asyncio.to_thread(self.postgres.restart)
        with suppress(psycopg.OperationalError):
            await working
        self.simulation.emulated_clock.advance(30)
        self.simulation.coolify.advance(self.simulation.now)
        self.simulation.connection.close()
        self.simulation.connection = psycopg.connect(
            self.simulation.url, autocommit=True, row_factory=dict_row
        )
        self.counts["PostgreSQL killed"] += 1

    async def end(self) -> None:
        """Stop all faults and wait until every bot is final."""
        self.simulation.coolify.set_faults({"clear": True})
        for replica in self.simulation.replicas:
            replica.transport.crashes_in = None
        while self.unconfirmed:
            await self.post(0)
        await self.until(self.simulation.all_ended, within_s=6000)
        # Recovery stops an agent that a stop did not reach: on Coolify, agents wait for it.
        await self.until(
            lambda: not self.simulation.bots.running and self.simulation.has_no_leftovers(),
            within_s=2000,
        )

    def check_all_bots(self) -> Counter[str]:
        """Check every accepted bot and count the outcomes."""
        simulation, bots = self.simulation, self.simulation.bots
        assert_settled(simulation.url)
        rows = simulation.rows("SELECT id, status, failure_code, failure_reason FROM bots")
        assert {row["id"] for row in rows} == set(self.accepted.values()), (
            "a bot is lost or created twice"
        )
        assert all(row["failure_reason"] for row in rows if row["status"] == "FAILED")
        # Docker restarts the container of an agent that died, so only joins count.
        assert not {b: joins for b, joins in bots.joined.items() if len(joins) > 1}, "joined twice"
        assert not bots.running, "left running"
        assert simulation.has_no_leftovers(), "applications are left over or lost"
        assert max(simulation.requests_by_minute()) <= BUSY.requests_per_minute
        return Counter(row["failure_code"] or row["status"] for row in rows)


POLICY, LAG_S = FAST_POLICY, FAST_STATUS_LAG_S
