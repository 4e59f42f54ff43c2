"""Fair share: tenants take turns while bots of several tenants wait, and quotas of live bots."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from botpool.domain.callers import Caller
from botpool.domain.ids import BotId, PoolName, TenantId
from botpool.domain.states import BotStatus
from botpool.engine.admission.estimates import Estimates
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import CALLER, MEET, TEAMS, Stage, bot_request, pool

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


@pytest.fixture
async def clients(stage: Stage) -> Clients:
    return Clients(stage, await stage.replica(pool(2), pool(2, TEAMS)))


async def test_one_tenant_has_no_turns(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.post("a", 6)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {}


async def test_first_bot_of_a_new_tenant_is_next(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 20)
    (late,) = await clients.post("b")
    await clients.release(first)
    assert clients.stage.statuses(late) == ["DEPLOYING"]
    assert_invariants(clients.stage.url)


async def test_queue_of_a_tenant_keeps_its_own_order(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, second, *_ = await clients.post("a", 2)
    usual, _ = await clients.post("b", 2)
    (urgent,) = await clients.post("b", priority=1)
    await clients.post("a", 2)
    await clients.release(first)
    assert clients.stage.statuses(usual, urgent) == ["QUEUED", "DEPLOYING"]
    await clients.release(second)
    assert clients.used() == {"a": 1, "b": 1}


async def test_tenant_that_filled_the_pool_alone_does_not_keep_its_lead(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    bots = await clients.post("a", 10)
    await clients.post("b", 10)
    for bot_id in bots[:2]:
        await clients.release(bot_id)
    assert clients.used() == {"a": 1, "b": 1}


async def test_tenant_with_slots_in_use_is_not_next_when_it_begins_to_wait(
    clients: Clients,
) -> None:
    """The count of slots precedes its first turn: it used all slots without a turn."""
    for name in ("a", "b", "c"):
        await clients.tenant(name)
    first, _ = await clients.post("a", 2)
    await clients.post("b", 3)
    await clients.post("c", 3)
    await clients.post("a", 3)
    await clients.release(first)
    assert clients.used() == {"a": 1, "b": 1}


@pytest.mark.parametrize("way", ["cancelled", "expired"])
async def test_turn_without_bots_leaves_no_slot_idle(clients: Clients, way: str) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 5)
    (gone,) = await clients.post("b")
    if way == "cancelled":
        await clients.replica.bot_stopper.stop(gone)
    else:
        clients.stage.rows(
            "UPDATE bot_pool_queue SET timeout_at = botpool_now() WHERE bot_id = %s", gone
        )
        await clients.replica.queue_poller.expire()
    await clients.release(first)
    assert clients.used() == {"a": 2}
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {"a": False, "b": False}


async def test_poll_restores_a_missing_turn(clients: Clients) -> None:
    """As after a crash between the commit of the queue row and that of the turn."""
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 5)
    clients.fill_queue("b", 2)
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {"a": True, "b": True}
    await clients.release(first)
    assert clients.used() == {"a": 1, "b": 1}


async def test_turns_end_when_one_tenant_remains(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 5)
    await clients.post("b")
    await clients.release(first)
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {"a": False, "b": False}


async def test_single_requests_do_not_starve_a_long_queue(stage: Stage) -> None:
    """A tenant that asks for one bot at a time gets no head start at each return."""
    clients = Clients(stage, await stage.replica(pool(1)))
    await clients.tenant("a")
    await clients.tenant("b")
    await clients.post("a", 25)
    served = Counter[str]()
    for _ in range(16):
        waiting = stage.rows("SELECT DISTINCT tenant_id FROM bot_pool_queue")
        if len(waiting) == 1:
            await clients.post("b")
        await clients.release(*clients.assigned())
        served.update(clients.tenants_of(set(clients.assigned())))
    assert served == {"a": 8, "b": 8}


async def test_sixty_tenants_on_two_slots_are_all_served(clients: Clients) -> None:
    names = [f"t{n}" for n in range(60)]
    for name in names:
        await clients.tenant(name)
    await clients.post("t0", 2)
    for name in names:
        clients.fill_queue(name, 3)
    await clients.replica.matcher.refresh_turns(MEET)
    for _ in range(31):
        await clients.release(*clients.assigned())
    rows = clients.stage.rows(
        "SELECT DISTINCT b.tenant_id FROM assignments a JOIN bots b ON b.id = a.bot_id"
    )
    assert len(rows) == 60


async def test_position_is_that_in_the_queue_of_the_tenant(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    await clients.post("a", 7)
    request = bot_request(caller=clients.callers["b"])
    first = await clients.replica.admission.admit(request)
    second = await clients.replica.admission.admit(request)
    assert (first.position, second.position) == (1, 2)
    found = await clients.replica.admission.find(second.bot.id)
    assert found.position == 2
    page = await clients.replica.queries.queue(None, tenant_id=None, after=None, limit=50)
    shown = {entry.bot_id: entry.position for entry, _ in page.items}
    assert shown[first.bot.id] == 1
    assert sorted(shown.values()) == [1, 1, 2, 2, 3, 4, 5]


async def test_estimate_accounts_for_the_other_tenants(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    await clients.post("a", 2)
    clients.stage.clock.move(100)
    await clients.post("a", 10)
    await clients.post("b")
    estimates = Estimates(clients.replica.database)
    alone = await estimates.wait_ms(MEET, "another", 1)
    assert alone is not None
    assert await estimates.wait_ms(MEET, "b", 1) == 2 * alone


@pytest.mark.parametrize("weights", [(1, 1, 2)])
async def test_shares_follow_the_weights_over_a_thousand_hand_overs(
    stage: Stage, weights: tuple[int, ...]
) -> None:
    replica = await stage.replica(pool(20))
    clients = Clients(stage, replica)
    by_name = dict(zip("abc", weights, strict=True))
    for name, weight in by_name.items():
        await clients.tenant(name, weight=weight)
    await clients.post("a", 20)
    for name in by_name:
        clients.fill_queue(name, 500 if name != "a" else 520)
    await replica.matcher.refresh_turns(MEET)
    chance = random.Random(7)
    handed_over = Counter[str]()
    while handed_over.total() < 1000:
        before = set(clients.assigned())
        await clients.release(*chance.sample(sorted(before), 10))
        handed_over.update(clients.tenants_of(set(clients.assigned()) - before))
    assert handed_over["c"] == pytest.approx(500, rel=0.05)
    assert handed_over["a"] == pytest.approx(250, rel=0.05)
    assert handed_over["b"] == pytest.approx(250, rel=0.05)
    await clients.tenant("new")
    (first_of_new,) = await clients.post("new")
    await clients.release(clients.assigned()[0])
    assert stage.statuses(first_of_new) == ["DEPLOYING"]


# Quotas of live bots


async def test_request_without_queueing_gets_a_slot_beside_a_tenant_at_its_quota(
    clients: Clients,
) -> None:
    await clients.tenant("a", max_live=1)
    await clients.tenant("b")
    await clients.post("a", 3)
    request = bot_request(caller=clients.callers["b"], queue_timeout_ms=0)
    admitted = await clients.replica.admission.admit(request)
    assert clients.stage.statuses(admitted.bot.id) == ["DEPLOYING"]


async def test_tenant_at_its_quota_waits_beside_idle_slots(clients: Clients) -> None:
    await clients.tenant("a", max_live=1)
    first, second = await clients.post("a", 2)
    assert clients.stage.statuses(first, second) == ["DEPLOYING", "QUEUED"]
    assert clients.live("a") == 1
    assert len(clients.stage.slots()) == 1, "the pool does not grow for a tenant at its quota"
    await clients.release(first)
    assert clients.stage.statuses(second) == ["DEPLOYING"]
    assert_invariants(clients.stage.url)


async def test_pool_grows_for_a_tenant_only_as_far_as_its_quota(clients: Clients) -> None:
    await clients.replica.pools.configure([pool(30)])
    await clients.tenant("a", max_live=3)
    await asyncio.gather(*(clients.post("a", 3) for _ in range(4)))
    # A match passes over a quota that another transaction holds; the poll makes up for it.
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.used()["a"] == 3
    assert len(clients.stage.slots()) == 3


async def test_tenant_at_its_quota_does_not_hold_others_back(clients: Clients) -> None:
    await clients.tenant("a", max_live=1)
    await clients.tenant("b")
    await clients.post("a", 10)
    (other,) = await clients.post("b")
    assert clients.stage.statuses(other) == ["DEPLOYING"]
    await clients.release(other)
    (third,) = await clients.post("b")
    assert clients.stage.statuses(third) == ["DEPLOYING"]
    written = clients.stage.rows(
        "SELECT from_state FROM history WHERE bot_id = %s AND to_state = 'DEPLOYING'", third
    )
    assert [row["from_state"] for row in written] == ["PENDING"]
    assert clients.stage.bot(third)["queued_at"] is None


async def test_quota_counts_all_pools_and_a_release_serves_the_other_pool(
    clients: Clients,
) -> None:
    await clients.tenant("a", max_live=2)
    first, _ = await clients.post("a", 2)
    (waiting,) = await clients.post("a", pool_name=TEAMS)
    assert clients.stage.statuses(waiting) == ["QUEUED"]
    await clients.release(first)
    assert clients.stage.statuses(waiting) == ["DEPLOYING"]
    assert clients.live("a") == 2


async def test_quota_filled_in_another_pool_leaves_no_slot_idle(clients: Clients) -> None:
    await clients.tenant("a", max_live=1)
    await clients.tenant("b")
    first, second = await clients.post("b", 2)
    await clients.post("b", 3)
    await clients.post("a", 3)
    await clients.post("a", pool_name=TEAMS)
    assert clients.live("a") == 1
    await clients.release(first)
    await clients.release(second)
    assert clients.used() == {"b": 2}
    assert clients.used(TEAMS) == {"a": 1}


async def test_quota_of_zero_means_no_bots(clients: Clients) -> None:
    await clients.tenant("a", max_live=0)
    (bot_id,) = await clients.post("a")
    await clients.replica.queue_poller.poll()
    assert clients.stage.statuses(bot_id) == ["QUEUED"]


async def test_quota_is_exact_under_concurrent_claims(stage: Stage) -> None:
    replicas = [await stage.replica(pool(30), pool(30, TEAMS)) for _ in range(6)]
    clients = Clients(stage, replicas[0])
    await clients.tenant("a", max_live=7)
    await clients.tenant("b")
    await asyncio.gather(
        *(
            replica.admission.admit(
                bot_request(pool_name, caller=clients.callers[name], queue_timeout_ms=60_000)
            )
            for replica in replicas
            for pool_name in (MEET, TEAMS)
            for name in ("a", "b", "a")
            for _ in range(2)
        )
    )
    for _ in range(3):
        stage.clock.move(1)
        await asyncio.gather(*(replica.queue_poller.poll() for replica in replicas))
    assert clients.used()["a"] + clients.used(TEAMS)["a"] == 7 == clients.live("a")
    assert clients.used()["b"] + clients.used(TEAMS)["b"] == 24
    assert_invariants(stage.url)


async def test_new_quota_counts_the_bots_that_already_run(clients: Clients) -> None:
    await clients.tenant("a")
    first, _ = await clients.post("a", 2)
    await clients.replica.tenants.change("a", {"max_live": 2})
    (waiting,) = await clients.post("a", pool_name=TEAMS)
    assert clients.stage.statuses(waiting) == ["QUEUED"], "no count, no slot"
    await clients.replica.queue_poller.poll()
    assert clients.live("a") == 2
    await clients.release(first)
    assert clients.stage.statuses(waiting) == ["DEPLOYING"]


async def test_recovery_corrects_a_wrong_count(clients: Clients) -> None:
    await clients.tenant("a", max_live=2)
    await clients.post("a")
    clients.stage.rows("UPDATE tenants SET live = 2 WHERE name = 'a'")
    await clients.replica.recovery.run()
    assert clients.live("a") == 1
    assert TenantId(1) not in {caller.tenant_id for caller in clients.callers.values()}
