"""A Botpool of some replicas on an emulated Coolify, in time that the test moves.

The engine, the backend, its client and the database are the real ones. Coolify is the emulator, in
memory; agents live in its containers. Replicas are stepped one after the other, so the same seed
gives the same morning.
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
from botpool.domain.records import PoolSpec
from botpool.domain.recovery import RecoveryLimits
from botpool.emulators.coolify import (
    EmulatedCoolify,
    EmulatedTransport,
    EmulatorConfig,
    ManualClock,
)
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.request_budget import SharedRequestBudget
from botpool.store.database import Database
from tests.simulation.agents import Bots
from tests.support.clock import Clock
from tests.support.replicas import MEET, bot_request

SECRET = b"secret"
TICK_S = 5.0
_numbers = itertools.count(1)


class Killed(BaseException):
    """The replica ends here, in the middle of a request."""


class Line(httpx.AsyncBaseTransport):
    """The way of one replica to Coolify, on which it may die: before a request, or after it."""

    def __init__(self, emulated: EmulatedTransport) -> None:
        self._emulated = emulated
        self.dies_in: int | None = None
        self.dies_before = False
        self.dead = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        if self.dies_in is not None:
            self.dies_in -= 1
            self.dead = self.dead or self.dies_in <= 0
        if self.dead and self.dies_before:
            raise Killed
        answer = await self._emulated.handle_async_request(request)
        if self.dead:
            raise Killed
        return answer


@dataclass
class Living:
    replica: Replica
    database: Database
    line: Line


QUARTER = EmulatorConfig(
    first_start_s=60.0,
    start_s=10.0,
    stop_s=(1.0, 8.0),
    delete_s=(1.0, 5.0),
    status_lag_s=(0.0, 15.0),
    health_lag_s=(0.0, 90.0),
)
"""A Coolify whose times are about a quarter of the usual: more mornings, fewer ticks."""

QUARTER_LAG_S = 15.0
QUARTER_POLICY = Policy(
    deploy_timeout_s=300,
    deploy_grace_s=45,
    deploy_wait_timeout_s=900,
    observe_interval_s=5,
    stop_patience_s=40,
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
class Morning:
    url: str
    world: EmulatedCoolify
    bots: Bots
    pools: Sequence[PoolSpec]
    policy: Policy
    concurrent_deployments: int
    status_lag_s: float
    installation: str
    eye: psycopg.Connection[dict[str, Any]]
    """The test's own connection: kept, since it looks at every tick."""
    emulated_clock: ManualClock
    chance: random.Random
    living: list[Living] = field(default_factory=list)
    closing: list[Database] = field(default_factory=list)
    killed: int = 0
    ticks: int = 0
    due_at: dict[str, float] = field(
        default_factory=lambda: {"look": 0.0, "recover": 0.0, "clean": 0.0}
    )

    # Making it

    @classmethod
    @asynccontextmanager
    async def dawn(
        cls,
        url: str,
        *pools: PoolSpec,
        seed: int = 0,
        nature: EmulatorConfig | None = None,
        replicas: int = 1,
        stay_s: float = 60.0,
        policy: Policy | None = None,
        concurrent_deployments: int = 4,
        status_lag_s: float = 60.0,
        shares: "Morning | None" = None,
        installation: str = "one",
    ) -> AsyncIterator["Morning"]:
        """`shares`: another Botpool's morning, on whose Coolify this one is too."""
        Clock(url).freeze()
        bots = shares.bots if shares else Bots(SECRET, stay_s=stay_s)
        morning = cls(
            url=url,
            world=shares.world if shares else EmulatedCoolify(nature, seed=seed, runtime=bots),
            bots=bots,
            pools=pools,
            policy=policy or Policy(),
            concurrent_deployments=concurrent_deployments,
            status_lag_s=status_lag_s,
            installation=installation,
            eye=psycopg.connect(url, autocommit=True, row_factory=dict_row),
            emulated_clock=shares.emulated_clock if shares else ManualClock(),
            chance=random.Random(seed),
        )
        try:
            for _ in range(replicas):
                await morning.start_replica()
            yield morning
        finally:
            morning.eye.close()
            for database in morning.closing:
                await database.close()

    async def start_replica(self) -> Living:
        # Few connections: each must learn its statements anew.
        database = Database(self.url, max_connections=2)
        await database.open()
        self.closing.append(database)
        line = Line(EmulatedTransport(self.world, self.emulated_clock))
        nature = self.world.config
        config = CoolifyConfig(
            url="http://coolify",
            token=nature.token,
            project_uuid=nature.project,
            server_uuid=nature.server,
            environment_name=nature.environment,
            installation_id=self.installation,
            concurrent_deployments=self.concurrent_deployments,
            status_lag_s=self.status_lag_s,
            retry_wait_s=0,
        )
        budget = SharedRequestBudget(
            database=database,
            backend="coolify",
            requests_per_minute=nature.requests_per_minute,
        )
        backend = CoolifyBackend(config, budget, transport=line)
        identity = Identity(
            owner=f"replica-{next(_numbers)}", public_url=self.installation, secret=SECRET
        )
        replica = Replica(database, {"coolify": backend}, self.policy, identity)
        await replica.pools.configure(self.pools)
        living = Living(replica=replica, database=database, line=line)
        self.living.append(living)
        return living

    # Living it

    @property
    def now(self) -> float:
        return self.emulated_clock.now()

    @property
    def replica(self) -> Replica:
        return self.living[0].replica

    async def admit(self, bots: int, pool_name: PoolName = MEET, **changes: Any) -> list[BotId]:
        wanted = {"queue_timeout_ms": 600_000} | changes
        return [
            (await self.replica.admission.admit(bot_request(pool_name, **wanted))).bot.id
            for _ in range(bots)
        ]

    async def tick(self, seconds: float = TICK_S) -> None:
        """Let time pass, then everybody do what is due."""
        self.emulated_clock.advance(seconds)
        self.world.advance(self.now)
        await self.work()

    async def work(self) -> None:
        """What this Botpool and its bots do at the present moment."""
        self.eye.execute(
            "UPDATE test_clock SET moved_by = make_interval(secs => %s)", [self.now], prepare=True
        )
        self.bots.now = self.now
        self.ticks += 1
        await self.bots.act(self.installation, self.replica.agents)
        self.world.advance(self.now)
        due = {name for name, at in self.due_at.items() if self.now >= at}
        for name in due:
            self.due_at[name] = self.now + self._interval_s(name)
        for number, living in enumerate(list(self.living)):
            try:
                await self._step(living.replica)
                # What any replica may do is done by one: they would only find it done.
                if number == self.ticks % len(self.living):
                    await self._watch(living.replica, due)
            except Killed:
                await self.bury(living)

    async def run_until(
        self, reached: Callable[[], bool], *, within_s: float, tick_s: float = TICK_S
    ) -> None:
        ends_at = self.now + within_s
        while not reached():
            assert self.now < ends_at, f"not reached in {within_s:g} s: {self.statuses()}"
            await self.tick(tick_s)

    def _interval_s(self, name: str) -> float:
        return {
            "look": self.policy.observe_interval_s,
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
            if any(isinstance(outcome, Killed) for outcome in outcomes):
                raise Killed

    async def _watch(self, replica: Replica, due: set[str]) -> None:
        await replica.recovery.record_liveness()
        if "look" in due:
            await replica.observer.observe_due_backends()
        if "recover" in due:
            await replica.recovery.recover()
        if "clean" in due:
            await replica.cleanup.clean(all_strays=False)
        await replica.queue_poller.poll()
        await replica.describer.describe_due()

    async def bury(self, living: Living) -> None:
        """Nothing of it is handed back; another one takes its image_host."""
        self.killed += 1
        for task in list(living.replica.reconciler.under_way):
            task.cancel()
        self.living.remove(living)
        await self.start_replica()

    # Seeing it

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return self.eye.execute(query, parameters, prepare=True).fetchall()

    def statuses(self) -> dict[int, str]:
        return {row["id"]: row["status"] for row in self.rows("SELECT id, status FROM bots")}

    def all_ended(self) -> bool:
        (row,) = self.rows(
            "SELECT NOT EXISTS (SELECT FROM bots WHERE ended_at IS NULL) "
            "AND NOT EXISTS (SELECT FROM bot_pool_slots WHERE status <> 'idle') AS ended"
        )
        return bool(row["ended"])

    def is_tidy(self) -> bool:
        """No application is left over, and none of a slot is lost.

        One whose creation was never answered waits under its slot's name, which finds it there.
        """
        slots = self.rows("SELECT slot_name, container_id FROM bot_pool_slots")
        known = {slot["container_id"] for slot in slots if slot["container_id"]}
        awaited = {slot["slot_name"] for slot in slots if not slot["container_id"]}
        others = self.owned() - known
        return known <= self.owned() and all(
            self.world.applications[uuid].name in awaited for uuid in others
        )

    def owned(self) -> set[str]:
        """Applications that carry this installation's mark."""
        return {
            uuid
            for uuid, application in self.world.applications.items()
            if f"botpool-{self.installation}" in application.tags
        }

    def requests_by_minute(self) -> list[int]:
        return self.world.rate_limits.requests.by_minute(self.now)

    def seconds_to_running(self) -> list[float]:
        """Of each bot that ran, in the order of admission."""
        rows = self.rows(
            "SELECT extract(epoch FROM started_at - created_at)::float8 AS s FROM bots "
            "WHERE started_at IS NOT NULL ORDER BY id"
        )
        return [row["s"] for row in rows]
