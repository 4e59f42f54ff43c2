"""The quota of queued bots: exact under concurrency, and a refused request records nothing."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from botpool.domain.bots import AdmittedBot
from botpool.domain.callers import Caller
from botpool.domain.errors import NoFreeSlot, TenantQueueFull
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import CALLER, MEET, TEAMS, Stage, bot_request, key, pool

QUOTA = 5


async def caller_with(replica: Replica, **quotas: Any) -> Caller:
    tenant = await replica.tenants.create("acme", **quotas)
    return (await replica.api_keys.create("acme", "user", tenant_id=tenant.id))[0].caller


def recorded(stage: Stage) -> dict[str, list[dict[str, Any]]]:
    tables = ("bots", "bot_pool_queue", "bot_pool_slots", "history", "idempotency_keys")
    return {table: stage.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}


async def test_bot_beyond_the_quota_is_refused_and_records_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    caller = await caller_with(replica, max_queued=1)
    await replica.admission.admit(bot_request(caller=caller))
    waiting = await replica.admission.admit(bot_request(caller=caller))
    assert (waiting.bot.status, waiting.position) == (BotStatus.QUEUED, 1)
    before = recorded(stage)
    for sent in (None, key("again"), None):  # without and with a match, in batch and alone
        with pytest.raises(TenantQueueFull, match="maxQueued allows acme 1 queued") as refused:
            await replica.admission.admit(bot_request(caller=caller), sent)
        assert refused.value.retry_after_s > 0
    with pytest.raises(NoFreeSlot):
        await replica.admission.admit(bot_request(caller=caller, queue_timeout_ms=0))
    assert recorded(stage) == before
    # A key that was refused is not taken: after the queue has room, it creates its bot.
    await replica.bot_stopper.stop(waiting.bot.id)
    admitted = await replica.admission.admit(bot_request(caller=caller), key("again"))
    assert (admitted.bot.status, admitted.replayed) == (BotStatus.QUEUED, False)


async def test_quota_of_no_queued_bots_still_admits_to_slots(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    caller = await caller_with(replica, max_queued=0)
    for _ in range(2):  # each grows the pool
        admitted = await replica.admission.admit(bot_request(caller=caller))
        assert admitted.bot.status is BotStatus.DEPLOYING
    with pytest.raises(TenantQueueFull):
        await replica.admission.admit(bot_request(caller=caller))


async def test_quota_is_exact_with_concurrent_requests_in_two_pools_and_replicas(
    stage: Stage,
) -> None:
    pools = (pool(0), pool(0, TEAMS))
    replicas = [await stage.replica(*pools) for _ in range(3)]
    caller = await caller_with(replicas[0], max_queued=QUOTA)

    async def admit(n: int) -> str:
        request = bot_request((MEET, TEAMS)[n % 2], caller=caller if n % 4 else CALLER)
        sent = key(f"key {n}") if n % 3 == 0 else None
        try:
            admitted = await replicas[n % 3].admission.admit(request, sent)
        except TenantQueueFull:
            return "refused"
        return admitted.bot.tenant

    outcomes = Counter(await asyncio.gather(*(admit(n) for n in range(60))))
    assert outcomes == {"acme": QUOTA, "default": 15, "refused": 40}
    rows = stage.rows("SELECT tenant_id, count(*) AS n FROM bot_pool_queue GROUP BY 1 ORDER BY 1")
    assert [row["n"] for row in rows] == [15, QUOTA]


async def test_one_batch_admits_up_to_the_quota_in_order_of_arrival(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    caller = await caller_with(replica, max_queued=QUOTA)
    results = await asyncio.gather(
        *(replica.admission.admit(bot_request(caller=caller)) for _ in range(QUOTA + 3)),
        return_exceptions=True,
    )
    admitted = [each for each in results if isinstance(each, AdmittedBot)]
    assert results[:QUOTA] == admitted, "the first ones got the places"
    assert [each.position for each in admitted] == list(range(1, QUOTA + 1))
    assert all(isinstance(each, TenantQueueFull) for each in results[QUOTA:])


async def test_changed_quota_applies_to_the_next_request(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    caller = await caller_with(replica)
    bots = [await replica.admission.admit(bot_request(caller=caller)) for _ in range(3)]
    await replica.tenants.change("acme", {"max_queued": 2})
    with pytest.raises(TenantQueueFull):
        await replica.admission.admit(bot_request(caller=caller))
    assert stage.statuses(*(each.bot.id for each in bots)) == ["QUEUED"] * 3, "none is ended"
    await replica.tenants.change("acme", {"max_queued": None})
    assert (await replica.admission.admit(bot_request(caller=caller))).position == 4


async def test_requeued_bot_is_never_refused(stage: Stage) -> None:
    """An accepted bot reaches a final status, whatever the quota says meanwhile."""
    replica = await stage.replica(pool(1))
    caller = await caller_with(replica, max_queued=0)
    bot = (await replica.admission.admit(bot_request(caller=caller))).bot
    (slot,) = stage.slots()
    await replica.pools.drain(MEET, drained=True, reason="test")
    await replica.slot_commands.recover(slot["id"], reason="test")
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["QUEUED"]
