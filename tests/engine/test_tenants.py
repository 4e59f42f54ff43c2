"""Bots carry the tenant and the API key of the request that created them."""

from dataclasses import replace

from botpool.domain.bots import CreatedBy
from botpool.domain.callers import Caller
from botpool.domain.ids import TenantId
from botpool.domain.tenants import ApiKey
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request, pool


async def tenant_key(stage: Stage, replica: Replica, tenant: str, scope: str = "user") -> ApiKey:
    (row,) = stage.rows("INSERT INTO tenants (name) VALUES (%s) RETURNING id", tenant)
    key, _ = await replica.api_keys.create(f"{tenant} key", scope, tenant_id=TenantId(row["id"]))
    return key


def tenants_of(stage: Stage) -> dict[str, list[int]]:
    return {
        table: [
            row["tenant_id"] for row in stage.rows(f"SELECT tenant_id FROM {table} ORDER BY id")
        ]
        for table in ("bots", "bot_pool_slots", "bot_pool_queue")
    }


async def test_bot_slot_and_queue_row_carry_the_tenant_of_the_request(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    key = await tenant_key(stage, replica, "acme")
    for _ in range(3):  # grows the pool twice, then queues
        await replica.admission.admit(bot_request(caller=key.caller))
    assert tenants_of(stage) == {
        "bots": [key.tenant_id] * 3,
        "bot_pool_slots": [key.tenant_id] * 2,
        "bot_pool_queue": [key.tenant_id],
    }


async def test_slot_changes_to_the_tenant_of_its_next_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    key = await tenant_key(stage, replica, "acme")
    first = await stage.run_bot(replica)
    assert tenants_of(stage)["bot_pool_slots"] == [1]
    await replica.admission.admit(bot_request(caller=key.caller))
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    assert tenants_of(stage)["bot_pool_slots"] == [key.tenant_id], "by the match"
    await replica.bot_stopper.stop((await replica.admission.admit(bot_request())).bot.id)
    (busy,) = stage.rows("SELECT assigned_bot_id AS id FROM bot_pool_slots")
    await stage.end(replica, busy["id"])
    await stage.settle(replica)
    await replica.admission.admit(bot_request())
    assert tenants_of(stage)["bot_pool_slots"] == [1], "by the fast path"


async def test_bot_shows_its_tenant_and_the_key_that_created_it(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    key = await tenant_key(stage, replica, "acme")
    caller = key.caller
    assert caller == Caller(
        key_id=key.id, key_name="acme key", scope="user", tenant_id=key.tenant_id, tenant="acme"
    )
    for _ in range(2):  # one with a slot, one queued
        admitted = (await replica.admission.admit(bot_request(caller=caller))).bot
        assert admitted.tenant == "acme"
        assert admitted.created_by == CreatedBy(key_id=key.id, key_name="acme key")
        assert (await replica.admission.find(admitted.id)).bot == admitted


async def test_only_operators_see_other_tenants(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    caller = (await tenant_key(stage, replica, "acme")).caller
    assert caller.visible_tenant == caller.tenant_id
    assert replace(caller, scope="operator").visible_tenant is None
    assert replace(caller, scope="admin").visible_tenant is None


async def test_requeued_bot_keeps_its_tenant(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    key = await tenant_key(stage, replica, "acme")
    bot = (await replica.admission.admit(bot_request(caller=key.caller))).bot
    (slot,) = stage.slots()
    await replica.pools.drain(bot.pool_name, drained=True, reason="test")
    await replica.slot_commands.recover(slot["id"], reason="test")
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["QUEUED"]
    assert tenants_of(stage)["bot_pool_queue"] == [key.tenant_id]
