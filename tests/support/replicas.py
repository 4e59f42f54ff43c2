"""Replicas of the real engine on a real database, stepped by the test instead of by their loops.

The loops do not run: a test decides when a replica leases, steps, observes or polls. So a test
writes each interleaving down, and none depends on the speed of the machine.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from psycopg.rows import dict_row

from botpool.domain.bots import AdmittedBot, BotRequest, IdempotencyKey
from botpool.domain.callers import DEFAULT_TENANT, DEFAULT_TENANT_ID, Caller
from botpool.domain.ids import AssignmentId, BotId, PoolName
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.states import BotStatus
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database
from tests.support.clock import Clock
from tests.support.scripted_backend import ScriptedBackend

MEET = PoolName("google-meet")
TEAMS = PoolName("teams")
CALLER = Caller(
    key_id=1, key_name="test", scope="user", tenant_id=DEFAULT_TENANT_ID, tenant=DEFAULT_TENANT
)
_owners = itertools.count(1)


def bot_request(pool_name: PoolName = MEET, **changes: Any) -> BotRequest:
    return replace(
        BotRequest(
            caller=CALLER,
            pool_name=pool_name,
            meeting_url="https://meet.google.com/abc-defg-hij",
            bot_display_name="Botpool",
            bot_data={},
            priority=100,
            queue_timeout_ms=300_000,
            correlation_id="corr",
        ),
        **changes,
    )


def pool(max_size: int, pool_name: PoolName = MEET, image: str = "demo", **more: Any) -> PoolSpec:
    return PoolSpec(
        pool_name=pool_name,
        backend="process",
        image=image,
        max_size=max_size,
        # A container that ignores the stop is killed in the same step.
        **({"heartbeats": "required", "stop_grace_s": 0.0} | more),
    )


@dataclass
class Stage:
    """One database, one scripted backend, and any number of replicas."""

    url: str
    clock: Clock
    backend: ScriptedBackend = field(default_factory=ScriptedBackend)
    replicas: list[Replica] = field(default_factory=list)
    databases: list[Database] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def set(cls, url: str, clock: Clock) -> AsyncIterator["Stage"]:
        stage = cls(url, clock)
        try:
            yield stage
        finally:
            for replica in stage.replicas:
                await replica.webhook_dispatcher.stop()
            for database in stage.databases:
                await database.close()

    async def replica(self, *pools: PoolSpec, policy: Policy | None = None) -> Replica:
        database = Database(self.url)
        await database.open()
        self.databases.append(database)
        identity = Identity(
            owner=f"replica-{next(_owners)}",
            public_url="http://127.0.0.1:1",
            agent_keys=(b"key",),
            webhook_keys=(b"webhooks",),
        )
        replica = Replica(database, {"process": self.backend}, policy or Policy(), identity)
        await replica.pools.configure(pools)
        self.replicas.append(replica)
        return replica

    async def step(self, replica: Replica) -> int:
        """Run every step that is due now once; returns their number."""
        await replica.reconciler.run_due_steps()
        tasks = list(replica.reconciler.under_way)
        await asyncio.gather(*tasks)
        return len(tasks)

    async def settle(self, replica: Replica) -> None:
        """Step and observe until nothing changes."""
        before = None
        while before != (before := self.slots()):
            while await self.step(replica):
                pass
            await replica.observer.observe("process")

    async def run_bot(self, replica: Replica, **changes: Any) -> AdmittedBot:
        """Admit a bot and observe it running."""
        admitted = await replica.admission.admit(bot_request(**changes))
        await self.settle(replica)
        return await replica.admission.find(admitted.bot.id)

    async def end(self, replica: Replica, bot_id: BotId) -> bool:
        """Report DONE as the bot's agent; returns whether the report applied."""
        assignment = AssignmentId(self.slot_of(bot_id)["assignment_id"])
        return await replica.agents.report(assignment, bot_id, BotStatus.DONE, None)

    async def end_late(self, replica: Replica, bot_id: BotId, assignment_id: AssignmentId) -> bool:
        """Report DONE after the assignment; returns whether the report applied."""
        return await replica.agents.report(assignment_id, bot_id, BotStatus.DONE, None)

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Run a query with positional parameters, or with one mapping of named ones."""
        named = parameters[0] if parameters and isinstance(parameters[0], dict) else parameters
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(query, named)
            return cursor.fetchall() if cursor.description else []

    def slot_of(self, bot_id: BotId) -> dict[str, Any]:
        (slot,) = self.rows("SELECT * FROM bot_pool_slots WHERE assigned_bot_id = %s", bot_id)
        return slot

    def slots(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM bot_pool_slots ORDER BY id")

    def bot(self, bot_id: BotId) -> dict[str, Any]:
        (bot,) = self.rows("SELECT * FROM bots WHERE id = %s", bot_id)
        return bot

    def statuses(self, *bot_ids: BotId) -> Sequence[str]:
        return [self.bot(bot_id)["status"] for bot_id in bot_ids]


def key(text: str = "k", body: bytes = b"body") -> IdempotencyKey:
    return IdempotencyKey(key=text, body_hash=body)
