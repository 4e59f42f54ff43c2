"""Quotas of live bots: exact under concurrent claims, and no tenant at its quota slows others."""

import asyncio

import psycopg
import pytest

from botpool.domain.bots import AdmissionRequest
from botpool.domain.errors import NoFreeSlot
from botpool.domain.ids import TenantId
from botpool.store.queue import admit_to_idle_slots, new_bots
from tests.support.invariants import assert_invariants
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, pool
from tests.support.statement_log import record_statements
from tests.support.tenant_clients import Clients


@pytest.fixture
async def clients(stage: Stage) -> Clients:
    return Clients(stage, await stage.replica(pool(2), pool(2, TEAMS)))


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


async def idle_slots(clients: Clients, slots: int) -> None:
    """Use that many slots with bots of tenant b, and release them."""
    await clients.release(*await clients.post("b", slots))


async def test_request_beside_a_tenant_that_is_being_queued_is_one_statement(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clients.tenant("a", max_live=1)
    await clients.tenant("b")
    await idle_slots(clients, 2)
    await clients.post("a", 2)
    statements = record_statements(monkeypatch)
    with psycopg.connect(clients.stage.url) as other:
        # Bots of tenant a cannot be queued before this lock ends.
        other.execute("SELECT pg_advisory_xact_lock(1651471472, hashtext(%s))", [MEET])
        queueing = asyncio.create_task(clients.post("a"))
        while not any("enqueue_bots" in names for names in statements.transactions):
            await asyncio.sleep(0.01)
        (bot_id,) = await asyncio.wait_for(clients.post("b"), 60)
    await queueing
    assert clients.stage.bot(bot_id)["queued_at"] is None
    assert clients.stage.statuses(bot_id) == ["DEPLOYING"]


async def test_batch_with_a_tenant_at_its_quota_claims_slots_for_the_others(
    stage: Stage,
) -> None:
    clients = Clients(stage, await stage.replica(pool(4)))
    await clients.tenant("a", max_live=1)
    await clients.tenant("b")
    await clients.tenant("c")
    await idle_slots(clients, 4)
    await clients.post("a", 2)
    requests = [
        AdmissionRequest(bot=bot_request(caller=clients.callers[name]), key=None)
        for name in ("a", "b", "a", "c", "b")
    ]
    claimed = await admit_to_idle_slots(
        clients.replica.database, idempotency_days=7, **new_bots(requests)
    )
    assert sorted(slot.n for slot in claimed) == [2, 4, 5]
    assert clients.used() == {"a": 1, "b": 2, "c": 1}
    assert_invariants(stage.url)


async def test_batch_with_a_waiting_tenant_claims_slots_for_the_others(stage: Stage) -> None:
    clients = Clients(stage, await stage.replica(pool(2)))
    await clients.tenant("a")
    await clients.tenant("b")
    await idle_slots(clients, 2)
    clients.fill_queue("a", 1)
    requests = [
        AdmissionRequest(bot=bot_request(caller=clients.callers[name]), key=None)
        for name in ("a", "b")
    ]
    claimed = await admit_to_idle_slots(
        clients.replica.database, idempotency_days=7, **new_bots(requests)
    )
    assert [slot.n for slot in claimed] == [2]
    assert clients.used() == {"b": 1}


async def test_request_without_queueing_waits_for_the_count_of_another_pool(
    clients: Clients,
) -> None:
    """Another pool holds the count for a moment; the quota has room."""
    await clients.tenant("a", max_live=2)
    await clients.post("a", pool_name=TEAMS)
    request = bot_request(caller=clients.callers["a"], queue_timeout_ms=0)
    with psycopg.connect(clients.stage.url) as other:
        other.execute("SELECT FROM tenants WHERE name = 'a' FOR NO KEY UPDATE")
        admission = asyncio.create_task(clients.replica.admission.admit(request))
        while not admission.done() and not clients.stage.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0.01)
        assert not admission.done(), admission.exception()
    admitted = await admission
    assert clients.stage.statuses(admitted.bot.id) == ["DEPLOYING"]
    assert clients.live("a") == 2


async def test_request_without_queueing_is_refused_at_the_quota(clients: Clients) -> None:
    await clients.tenant("a", max_live=1)
    await clients.post("a", pool_name=TEAMS)
    request = bot_request(caller=clients.callers["a"], queue_timeout_ms=0)
    with pytest.raises(NoFreeSlot):
        await clients.replica.admission.admit(request)
    assert clients.live("a") == 1
