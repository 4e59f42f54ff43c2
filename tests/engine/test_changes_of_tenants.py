"""The stream of a user's key: the changes of its own tenant's bots, and nothing else."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from botpool.domain.callers import Caller
from botpool.engine.replica import Replica
from botpool.engine.stream.changes import ChangeStream
from botpool.engine.stream.subscriptions import MAX_WAITING, Batch, Reset, Subscription
from tests.engine.test_changes import PATIENCE_S, happen, nothing_for_now
from tests.support.replicas import MEET, Stage, bot_request, pool


@pytest.fixture
async def replica(stage: Stage) -> Replica:
    return await stage.replica(pool(3))


@pytest.fixture
async def changes(replica: Replica) -> AsyncIterator[ChangeStream]:
    changes = ChangeStream(replica.database, interval_s=0.01)
    yield changes
    await changes.close()


async def caller_of(replica: Replica, tenant: str) -> Caller:
    tenant_id = (await replica.tenants.create(tenant)).id
    return (await replica.api_keys.create(tenant, "user", tenant_id=tenant_id))[0].caller


async def admit(replica: Replica, caller: Caller) -> int:
    return (await replica.admission.admit(bot_request(caller=caller))).bot.id


async def bots_until(subscription: Subscription, bot_id: int) -> list[int | None]:
    """The bots of all changes up to the first ones of that bot."""
    bots: list[int | None] = []
    async with asyncio.timeout(PATIENCE_S):
        while bot_id not in bots:
            item = await subscription.take(within_s=PATIENCE_S)
            assert isinstance(item, Batch), item
            bots += [change.bot_id for change in item.changes]
    return bots


async def test_stream_of_a_tenant_has_only_changes_of_its_bots(
    stage: Stage, replica: Replica, changes: ChangeStream
) -> None:
    acme, globex = await caller_of(replica, "acme"), await caller_of(replica, "globex")
    own = await changes.subscribe(None, tenant_id=acme.visible_tenant)
    everything = await changes.subscribe(None)
    await admit(replica, globex)
    await replica.pools.drain(MEET, drained=True, reason="of the whole pool")
    await replica.pools.drain(MEET, drained=False, reason="of the whole pool")
    happen(stage, "of no bot")
    bot = await admit(replica, acme)
    assert set(await bots_until(own, bot)) == {bot}
    assert len(set(await bots_until(everything, bot))) == 3, "both bots, and changes without one"


async def test_stream_of_a_tenant_resumes_after_its_own_and_after_foreign_events(
    stage: Stage, replica: Replica, changes: ChangeStream
) -> None:
    acme, globex = await caller_of(replica, "acme"), await caller_of(replica, "globex")
    own = await changes.subscribe(None, tenant_id=acme.tenant_id)
    first = await admit(replica, acme)
    item = await own.take(within_s=PATIENCE_S)
    assert isinstance(item, Batch)
    cursor = str(item.cursor(item.changes[0]))
    rest = len(item.changes) - 1
    await admit(replica, globex)
    second = await admit(replica, acme)
    resumed = await changes.subscribe(cursor, tenant_id=acme.tenant_id)
    seen = await bots_until(resumed, second)
    assert seen[: rest + 1] == [first] * rest + [second], "nothing twice, nothing missing"
    await nothing_for_now(resumed)
    # The cursor of a stream without filter is only a position: it gives no further rights.
    whole = await changes.subscribe(cursor)
    other = await whole.take(within_s=PATIENCE_S)
    assert isinstance(other, Batch)
    foreign = await changes.subscribe(str(other.cursor(other.changes[0])), tenant_id=acme.tenant_id)
    assert set(await bots_until(foreign, second)) == {first, second}


async def test_cursor_moves_on_while_only_other_tenants_are_busy(
    replica: Replica, changes: ChangeStream
) -> None:
    """Otherwise, the client would resume from an ever older event, and get a reset."""
    acme, globex = await caller_of(replica, "acme"), await caller_of(replica, "globex")
    own = await changes.subscribe(None, tenant_id=acme.tenant_id)
    everything = await changes.subscribe(None)
    before = own.position
    bot = await admit(replica, globex)
    await bots_until(everything, bot)
    async with asyncio.timeout(PATIENCE_S):
        while own.position == before:
            await asyncio.sleep(0.01)
    assert before is not None and own.position is not None
    assert own.position.since > before.since


async def test_changes_of_others_do_not_fill_a_stream(
    stage: Stage, replica: Replica, changes: ChangeStream
) -> None:
    acme = await caller_of(replica, "acme")
    slow = await changes.subscribe(None, tenant_id=acme.tenant_id)
    everything = await changes.subscribe(None)
    for _ in range(3):
        happen(stage, "of no bot", MAX_WAITING // 2)
        async with asyncio.timeout(PATIENCE_S):
            while isinstance(await everything.take(within_s=0.1), Batch | Reset):
                pass
    assert not slow.over
    bot = await admit(replica, acme)
    assert set(await bots_until(slow, bot)) == {bot}
