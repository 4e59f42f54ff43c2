"""Admission, in the order of invariant 6: behind others, else claim, else grow, else queue."""

import asyncio

import pytest

from botpool.domain.errors import IdempotencyConflict, NoFreeSlot, PoolDrained, UnknownPool
from botpool.domain.ids import PoolName
from botpool.domain.states import WITH_BOT, BotStatus, SlotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, key, pool
from tests.support.statement_log import record_statements


async def idle_slots(stage: Stage, replica: Replica, count: int) -> list[str]:
    """That many slots, used in order and idle again."""
    bots = [(await stage.run_bot(replica)).bot for _ in range(count)]
    for bot in bots:
        await stage.end(replica, bot.id)
        await stage.settle(replica)
    return [str(bot.slot_name) for bot in bots]


async def test_empty_pool_grows_with_first_free_number(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    bots = [(await replica.admission.admit(bot_request())).bot for _ in range(3)]
    assert [bot.slot_name for bot in bots] == [f"pool-google-meet-00{n}" for n in (1, 2, 3)]
    assert {bot.status for bot in bots} == {BotStatus.DEPLOYING}


async def test_pool_grows_into_gap_in_slot_numbers_first(stage: Stage) -> None:
    replica = await stage.replica(pool(5))
    await idle_slots(stage, replica, 3)
    second = stage.slots()[1]
    await replica.pools.remove(second["id"], reason="test")
    await stage.settle(replica)
    for _ in range(2):
        await replica.admission.admit(bot_request())
    grown = (await replica.admission.admit(bot_request())).bot
    assert grown.slot_name == "pool-google-meet-002"


async def test_longest_unused_idle_slot_is_claimed(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    first, second, third = await idle_slots(stage, replica, 3)
    claimed = [(await replica.admission.admit(bot_request())).bot.slot_name for _ in range(3)]
    assert claimed == [first, second, third]


async def test_lone_bot_wakes_reconciler_at_once_and_burst_soon(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(4))
    for bot in [(await stage.run_bot(replica)).bot for _ in range(4)]:
        await stage.end(replica, bot.id)
    await stage.settle(replica)
    wakeups: list[str] = []
    monkeypatch.setattr(replica.wakeups, "wake_reconcilers", lambda: wakeups.append("now"))
    monkeypatch.setattr(replica.wakeups, "wake_reconcilers_soon", lambda: wakeups.append("soon"))
    await replica.admission.admit(bot_request())
    assert wakeups == ["now"]
    await asyncio.gather(*(replica.admission.admit(bot_request()) for _ in range(3)))
    assert wakeups == ["now", "soon"]


async def test_slot_of_another_pool_is_never_claimed(stage: Stage) -> None:
    replica = await stage.replica(pool(1), pool(0, TEAMS))
    await idle_slots(stage, replica, 1)
    queued = await replica.admission.admit(bot_request(TEAMS))
    assert queued.bot.status is BotStatus.QUEUED
    assert stage.slots()[0]["status"] == "idle"


async def test_full_pool_queues_bots_with_exact_positions(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await replica.admission.admit(bot_request())
    queued = [await replica.admission.admit(bot_request()) for _ in range(3)]
    assert [admitted.position for admitted in queued] == [1, 2, 3]
    urgent = await replica.admission.admit(bot_request(priority=1))
    assert urgent.position == 1
    assert (await replica.admission.find(queued[0].bot.id)).position == 2


async def test_estimate_comes_from_measured_assignments(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    stage.clock.move(600)
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    await stage.run_bot(replica)
    queued = await replica.admission.admit(bot_request())
    assert queued.estimated_wait_ms is not None
    assert 590_000 < queued.estimated_wait_ms < 620_000


async def test_new_bot_never_overtakes_the_queue(stage: Stage) -> None:
    """An idle slot beside a queue: the new bot queues behind it, and the head gets the slot."""
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = await replica.admission.admit(bot_request())
    await replica.pools.cordon(stage.slots()[0]["id"], cordoned=True, reason="test")
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    # Idle again without a match: as a crash between commit and match would leave it.
    stage.rows("UPDATE bot_pool_slots SET cordoned = false, version = version + 1 RETURNING id")
    late = await replica.admission.admit(bot_request())
    assert late.bot.status is BotStatus.QUEUED
    assert stage.statuses(waiting.bot.id) == ["DEPLOYING"]


async def test_pool_with_maximum_zero_has_no_slots(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    assert (await replica.admission.admit(bot_request())).position == 1
    assert stage.slots() == []


async def test_refused_request_records_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    with pytest.raises(NoFreeSlot):
        await replica.admission.admit(bot_request(queue_timeout_ms=0), key())
    assert stage.rows("SELECT id FROM bots UNION ALL SELECT id FROM history") == []
    assert stage.rows("SELECT key FROM idempotency_keys") == []


async def test_request_without_queueing_still_grows_the_pool(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    admitted = await replica.admission.admit(bot_request(queue_timeout_ms=0))
    assert admitted.bot.status is BotStatus.DEPLOYING


async def test_drained_pool_refuses_with_reason(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    await idle_slots(stage, replica, 1)
    await replica.pools.drain(MEET, drained=True, reason="test")
    with pytest.raises(PoolDrained):
        await replica.admission.admit(bot_request())
    await replica.pools.drain(MEET, drained=False, reason="test")
    assert (await replica.admission.admit(bot_request())).bot.status is BotStatus.DEPLOYING


async def test_unknown_pool_is_named_in_error(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    with pytest.raises(UnknownPool, match="webex"):
        await replica.admission.admit(bot_request(PoolName("webex")))


async def test_repeated_idempotency_key_returns_current_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await replica.admission.admit(bot_request(), key())
    await stage.settle(replica)
    again = await replica.admission.admit(bot_request(), key())
    assert again.replayed
    assert again.bot.id == first.bot.id
    assert again.bot.status is BotStatus.JOINING_CALL
    assert len(stage.rows("SELECT id FROM bots")) == 1


async def test_idempotency_key_with_another_body_conflicts(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await replica.admission.admit(bot_request(), key())
    with pytest.raises(IdempotencyConflict):
        await replica.admission.admit(bot_request(), key(body=b"other"))


async def test_idempotency_key_expires_after_seven_days(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first = await replica.admission.admit(bot_request(), key())
    stage.clock.move(7 * 86_400 + 1)
    again = await replica.admission.admit(bot_request(), key(body=b"other"))
    assert again.bot.id != first.bot.id


@pytest.mark.parametrize("warm", [True, False])
async def test_fifty_concurrent_requests_with_one_key_create_one_bot(
    stage: Stage, warm: bool
) -> None:
    replicas = [await stage.replica(pool(20)) for _ in range(2)]
    if warm:
        await idle_slots(stage, replicas[0], 5)
    before = len(stage.rows("SELECT id FROM bots"))
    answers = await asyncio.gather(
        *(replicas[n % 2].admission.admit(bot_request(), key()) for n in range(50))
    )
    assert len({answer.bot.id for answer in answers}) == 1
    assert [answer.replayed for answer in answers].count(False) == 1
    assert len(stage.rows("SELECT id FROM bots")) == before + 1


async def test_claim_of_idle_slot_is_one_statement(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(1))
    await idle_slots(stage, replica, 1)
    statements = record_statements(monkeypatch)
    await replica.admission.admit(bot_request())
    assert statements.single == ["admit_to_idle_slots"]
    assert len(stage.backend.calls_of("start")) == 1, "the reply waited for the backend"


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize("status", SlotStatus)
async def test_only_idle_uncordoned_slot_is_claimed(
    stage: Stage, status: SlotStatus, cordoned: bool
) -> None:
    """The statement and the domain's rule agree on every state of a slot."""
    replica = await stage.replica(pool(1))
    bot = (await replica.admission.admit(bot_request())).bot.id
    stage.rows("ALTER TABLE bot_pool_slots DISABLE TRIGGER slots_transitions")
    holds = status in WITH_BOT
    stage.rows(
        "UPDATE bot_pool_slots SET status = %s, cordoned = %s, version = version + 1, "
        "phase = CASE WHEN %s = 'deploying' THEN 'creating' END, error_message = 'test', "
        "assigned_bot_id = CASE WHEN %s THEN assigned_bot_id END, "
        "assignment_id = CASE WHEN %s THEN assignment_id END",
        status,
        cordoned,
        status,
        holds,
        holds,
    )
    claimed = (await replica.admission.admit(bot_request())).bot.status is BotStatus.DEPLOYING
    assert claimed == (status is SlotStatus.IDLE and not cordoned)
    # The state was forced: put away what no history tells of.
    stage.rows("TRUNCATE bots, bot_pool_slots, bot_pool_queue, assignments, history CASCADE")
    assert bot
