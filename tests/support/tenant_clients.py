"""Requests of several tenants, for tests of fair share and quotas."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from botpool.domain.callers import Caller
from botpool.domain.ids import BotId, PoolName
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import CALLER, MEET, Stage, bot_request

FILL_QUEUE = """
    WITH new AS (
        INSERT INTO bots (
            tenant_id, pool_name, status, meeting_url, bot_display_name, bot_data, priority,
            queue_timeout_ms, correlation_id, created_at, queued_at)
        SELECT
            %(tenant)s, %(pool)s, 'QUEUED', 'https://m.example', 'b', '{}', 100, 3600000, 'c',
            botpool_now(), botpool_now()
        FROM generate_series(1, %(bots)s)
        RETURNING id
    ), written AS (
        INSERT INTO history (kind, bot_id, from_state, to_state, reason)
        SELECT 'bot.status', new.id, v.old, v.new, 'test'
        FROM new, (VALUES (1, NULL, 'PENDING'), (2, 'PENDING', 'QUEUED')) AS v (step, old, new)
        ORDER BY new.id, v.step)
    INSERT INTO bot_pool_queue (bot_id, pool_name, tenant_id, priority, queued_at, timeout_at)
    SELECT
        new.id, %(pool)s, %(tenant)s, 100, botpool_now(), botpool_now() + interval '1 hour'
    FROM new"""


class Clients:
    """Sends requests of several tenants, and frees slots without a backend."""

    def __init__(self, stage: Stage, replica: Replica) -> None:
        self.stage = stage
        self.replica = replica
        self.callers: dict[str, Caller] = {}

    async def tenant(self, name: str, **values: Any) -> None:
        created = await self.replica.tenants.create(name, **values)
        self.callers[name] = replace(CALLER, tenant_id=created.id, tenant=name)

    async def post(
        self, name: str, bots: int = 1, pool_name: PoolName = MEET, **changes: Any
    ) -> list[BotId]:
        request = bot_request(
            pool_name, caller=self.callers[name], queue_timeout_ms=3_600_000, **changes
        )
        admitted = [await self.replica.admission.admit(request) for _ in range(bots)]
        return [each.bot.id for each in admitted]

    def fill_queue(self, name: str, bots: int, pool_name: PoolName = MEET) -> None:
        """Queue bots without the engine, as many posts would."""
        self.stage.rows(
            FILL_QUEUE,
            {"tenant": self.callers[name].tenant_id, "pool": pool_name, "bots": bots},
        )

    async def release(self, *bot_ids: BotId) -> None:
        """End bots and release their slots, which the next bots get."""
        found = self.stage.rows(
            "SELECT assigned_bot_id AS bot_id, assignment_id FROM bot_pool_slots"
            " WHERE assigned_bot_id = ANY (%s)",
            list(bot_ids),
        )
        assert len(found) == len(bot_ids)
        await asyncio.gather(
            *(
                self.replica.agents.report(
                    row["assignment_id"], row["bot_id"], BotStatus.DONE, None
                )
                for row in found
            )
        )
        while await self.stage.step(self.replica):
            pass

    def used(self, pool_name: PoolName = MEET) -> Counter[str]:
        rows = self.stage.rows(
            "SELECT t.name FROM bot_pool_slots s JOIN tenants t ON t.id = s.tenant_id"
            " WHERE s.assigned_bot_id IS NOT NULL AND s.pool_name = %s",
            pool_name,
        )
        return Counter(row["name"] for row in rows)

    def tenants_of(self, bot_ids: set[BotId]) -> list[str]:
        rows = self.stage.rows(
            "SELECT t.name FROM bots b JOIN tenants t ON t.id = b.tenant_id WHERE b.id = ANY (%s)",
            sorted(bot_ids),
        )
        return [row["name"] for row in rows]

    def turns(self) -> dict[str, bool]:
        rows = self.stage.rows(
            "SELECT t.name, u.waits FROM tenant_turns u JOIN tenants t ON t.id = u.tenant_id"
        )
        return {row["name"]: row["waits"] for row in rows}

    def live(self, name: str) -> int | None:
        (row,) = self.stage.rows("SELECT live FROM tenants WHERE name = %s", name)
        live: int | None = row["live"]
        return live

    def assigned(self) -> list[BotId]:
        """The bots in slots, longest assigned first."""
        rows = self.stage.rows(
            "SELECT assigned_bot_id AS id FROM bot_pool_slots WHERE assigned_bot_id IS NOT NULL"
            " ORDER BY assignment_id"
        )
        return [row["id"] for row in rows]
