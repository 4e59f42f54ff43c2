"""Some replicas on an emulated Coolify, in time that the test advances.

The engine, the Coolify backend, its client and the database are the real ones. The emulator runs
Coolify in memory, and simulated agents run in its containers. The simulation steps the replicas one
after the other, so the same seed gives the same run.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

from botpool.backends.coolify import CoolifyBackend, CoolifyConfig
from botpool.domain.ids import BotId, PoolName
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.recovery import RecoveryLimits
from botpool.emulators.coolify import (
    EmulatedClock,
    EmulatedCoolify,
    EmulatorConfig,
)
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.request_budget import SharedRequestBudget
from botpool.store.database import Database
from tests.simulation.simulated_agents import SimulatedAgents
from tests.support.clock import Clock
from tests.support.emulated_transport import EmulatedTransport
from tests.support.replicas import MEET, bot_request

AGENT_KEY = b"key"
TICK_S = 5.0
_numbers = itertools.count(1)


class ReplicaCrashed(BaseException):
    """The replica ends here, in the middle of a request."""


class CrashingTransport(httpx.AsyncBaseTransport):
    """The HTTP transport of one replica, which can crash it before or after a request."""

    def __init__(self, emulated: EmulatedTransport) -> None:
        self._emulated = emulated
        self.crashes_in: int | None = None
        self.crashes_before_request = False
        self.crashed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        if self.crashes_in is not None:
            self.crashes_in -= 1
            self.crashed = self.crashed or self.crashes_in <= 0
        if self.crashed and self.crashes_before_request:
            raise ReplicaCrashed
        response = await self._emulated.handle_async_request(request)
        if self.crashed:
            raise ReplicaCrashed
        return response


@dataclass
class SimulatedReplica:
    replica: Replica
    database: Database
    transport: CrashingTransport


FAST_COOLIFY = EmulatorConfig(
    first_start_s=60.0,
    start_s=10.0,
    stop_s=(1.0, 8.0),
    delete_s=(1.0, 5.0),
    status_lag_s=(0.0, 15.0),
    health_lag_s=(0.0, 90.0),
)
"""A Coolify with about a quarter of the usual times, so that a simulation needs fewer ticks."""

FAST_STATUS_LAG_S = 15.0
FAST_POLICY = Policy(
    deploy_timeout_s=300,
    deploy_grace_s=45,
    deploy_wait_timeout_s=900,
    observe_interval_s=5,
    stop_timeout_s=40,
    heartbeat_interval_ms=5_000,
    recovery_interval_s=15,
    recovery=RecoveryLimits(
        deploying_timeout_s=225, heartbeat_freshness_s=75, deploy_timeout_s=300
    ),
    cleanup_interval_s=60,
    stray_after_s=150,
)


def coolify_pool(max_size: int, pool_name: PoolName = MEET, image: str = "acme/bot:1") -> PoolSpec:
    return PoolSpec(
        pool_name=pool_name,
        backend="coolify",
        image=image,
        max_size=max_size,
        heartbeats="required",
    )


@dataclass
class CoolifySimulation:
    """An installation on an emulated Coolify, with a clock that the test advances."""

    url: str
    coolify: EmulatedCoolify
    bots: SimulatedAgents
    pools: Sequence[PoolSpec]
    policy: Policy
    concurrent_deployments: int
    status_lag_s: float
    installation: str
    connection: psycopg.Connection[dict[str, Any]]
    """The test's own connection, kept open because the test reads at every tick."""
    emulated_clock: EmulatedClock
    rng: random.Random
    replicas: list[SimulatedReplica] = field(default_factory=list)
    databases: list[Database] = field(default_factory=list)
    crashes: int = 0
    ticks: int = 0
    due_at: dict[str, float] = field(
        default_factory=lambda: {"observe": 0.0, "recover": 0.0, "clean": 0.0}
    )

    # Setup

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        url: str,
        *pools: PoolSpec,
        seed: int = 0,
        emulator_config: EmulatorConfig | None = None,
        replicas: int = 1,
        call_s: float = 60.0,
        policy: Policy | None = None,
        concurrent_deployments: int = 4,
        status_lag_s: float = 60.0,
        shares: "CoolifySimulation | None" = None,
        installation: str = "one",
    ) -> AsyncIterator["CoolifySimulation"]:
        """`shares`: the simulation of another installation on the same Coolify."""
        Clock(url).freeze()
        bots = shares.bots if shares else SimulatedAgents(AGENT_KEY, call_s=call_s)
        simulation = cls(
            url=url,
            coolify=shares.coolify
            if shares
            else EmulatedCoolify(emulator_config, seed=seed, runtime=bots),
            bots=bots,
            pools=pools,
            policy=policy or Policy(),
            concurrent_deployments=concurrent_deployments,
            status_lag_s=status_lag_s,
            installation=installation,
            connection=psycopg.connect(url, autocommit=True, row_factory=dict_row),
            emulated_clock=shares.emulated_clock if shares else EmulatedClock(manual=True),
            rng=random.Random(seed),
        )
        try:
            for _ in range(replicas):
                await simulation.start_replica()
            yield simulation
        finally:
            simulation.connection.close()
            for database in simulation.databases:
                await database.close()

    async def start_replica(self) -> SimulatedReplica:
        # Few connections, because each prepares its statements again.
        database = Database(self.url, max_connections=2)
        await database.open()
        self.databases.append(database)
        transport = CrashingTransport(EmulatedTransport(self.coolify, self.emulated_clock))
        emulator = self.coolify.config
        config = CoolifyConfig(
            url="http://coolify",
            token=emulator.token,
            project_uuid=emulator.project,
            server_uuid=emulator.server,
            environment_name=emulator.environment,
            installation_id=self.installation,
            concurrent_deployments=self.concurrent_deployments,
            status_lag_s=self.status_lag_s,
            retry_wait_s=0,
        )
        budget = SharedRequestBudget(
            database=database,
            backend="coolify",
            requests_per_minute=emulator.requests_per_minute,
        )
        backend = CoolifyBackend(config, budget, transport=transport)
        identity = Identity(
            owner=f"replica-{next(_numbers)}", public_url=self.installation, agent_keys=(AGENT_KEY,)
        )
        replica = Replica(database, {"coolify": backend}, self.policy, identity)
        await replica.pools.configure(self.pools)
        simulated = SimulatedReplica(replica=replica, database=database, transport=transport)
        self.replicas.append(simulated)
        return simulated

    # Running

    @property
    def now(self) -> float:
        return self.emulated_clock.now()

    @property
    def replica(self) -> Replica:
        return self.replicas[0].replica

    async def admit(self, bots: int, pool_name: PoolName = MEET, **changes: Any) -> list[BotId]:
        wanted = {"queue_timeout_ms": 600_000} | changes
        return [
            (await self.replica.admission.admit(bot_request(pool_name, **wanted))).bot.id
            for _ in range(bots)
        ]

    async def tick(self, seconds: float = TICK_S) -> None:
        """Advance the time, then run everything that is due."""
        self.emulated_clock.advance(seconds)
        self.coolify.advance(self.now)
        await self.work()

    async def work(self) -> None:
        """Run what the replicas and the agents do at the current time."""
        self.connection.execute(
            "UPDATE test_clock SET moved_by = make_interval(secs => %s)", [self.now], prepare=True
        )
        self.bots.now = self.now
        self.ticks += 1
        await self.bots.act(self.installation, self.replica.agents)
        self.coolify.advance(self.now)
        due = {name for name, at in self.due_at.items() if self.now >= at}
        for name in due:
            self.due_at[name] = self.now + self._interval_s(name)
        for number, replica in enumerate(list(self.replicas)):
            try:
                # Every replica: one that is not seen for a while leaves a gap in the heartbeats.
                await replica.replica.liveness.check()
                await self._step(replica.replica)
                # One replica runs the loops: the others would find the work done.
                if number == self.ticks % len(self.replicas):
                    await self._run_loops(replica.replica, due)
            except ReplicaCrashed:
                await self.replace_crashed(replica)

    async def run_until(
        self, reached: Callable[[], bool], *, within_s: float, tick_s: float = TICK_S
    ) -> None:
        ends_at = self.now + within_s
        while not reached():
            assert self.now < ends_at, f"not reached in {within_s:g} s: {self.statuses()}"
            await self.tick(tick_s)

    def _interval_s(self, name: str) -> float:
        return {
            "observe": self.policy.observe_interval_s,
            "recover": self.policy.recovery_interval_s,
            "clean": self.policy.cleanup_interval_s,
        }[name]

    async def _step(self, replica: Replica) -> None:
        for _ in range(3):
            await replica.reconciler.run_due_steps()
            tasks = list(replica.reconciler.under_way)
            if not tasks:
                break
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            if any(isinstance(outcome, ReplicaCrashed) for outcome in outcomes):
                raise ReplicaCrashed

    async def _run_loops(self, replica: Replica, due: set[str]) -> None:
        if "observe" in due:
            await replica.observer.observe_due_backends()
        if "recover" in due:
            await replica.recovery.recover()
        if "clean" in due:
            await replica.cleanup.clean(all_strays=False)
        await replica.queue_poller.poll()
        await replica.describer.describe_due()

    async def replace_crashed(self, replica: SimulatedReplica) -> None:
        """Cancel all work of a crashed replica without returning its leases, and start another."""
        self.crashes += 1
        for task in list(replica.replica.reconciler.under_way):
            task.cancel()
        self.replicas.remove(replica)
        await self.start_replica()

    # Checks

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return self.connection.execute(query, parameters, prepare=True).fetchall()

    def statuses(self) -> dict[int, str]:
        return {row["id"]: row["status"] for row in self.rows("SELECT id, status FROM bots")}

    def all_ended(self) -> bool:
        (row,) = self.rows(
            "SELECT NOT EXISTS (SELECT FROM bots WHERE ended_at IS NULL) "
            "AND NOT EXISTS (SELECT FROM bot_pool_slots WHERE status <> 'idle') AS ended"
        )
        return bool(row["ended"])

    def has_no_leftovers(self) -> bool:
        """Return whether every slot has its application and no other application is left over.

        A slot finds an application whose creation got no response by its name.
        """
        slots = self.rows("SELECT slot_name, container_id FROM bot_pool_slots")
        known = {slot["container_id"] for slot in slots if slot["container_id"]}
        awaited = {slot["slot_name"] for slot in slots if not slot["container_id"]}
        unknown = self.owned() - known
        return known <= self.owned() and all(
            self.coolify.applications[uuid].name in awaited for uuid in unknown
        )

    def owned(self) -> set[str]:
        """Return the applications that carry this installation's tag."""
        return {
            uuid
            for uuid, application in self.coolify.applications.items()
            if f"botpool-{self.installation}" in application.tags
        }

    def requests_by_minute(self) -> list[int]:
        return self.coolify.requests_by_minute()

    def seconds_to_running(self) -> list[float]:
        """Return the start times of all bots that ran, in the order of admission."""
        rows = self.rows(
            "SELECT extract(epoch FROM started_at - created_at)::float8 AS s FROM bots "
            "WHERE started_at IS NOT NULL ORDER BY id"
        )
        return [row["s"] for row in rows]
