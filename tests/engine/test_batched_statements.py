"""Many at once in one statement: each as if it had come alone."""

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
import structlog

from botpool.domain.bot_ending import BotEnding
from botpool.domain.bots import AdmissionRequest
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.states import BotStatus, SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.replica import Replica
from botpool.store.database import Database
from botpool.store.pools import lock_pool
from botpool.store.query import Statement
from botpool.store.queue import enqueue_bots, new_bots, settle_new_bots
from botpool.store.releases import FreedSlot, free_slots
from botpool.store.slot_leases import lease_slots
from tests.support.replicas import MEET, Stage, bot_request, key, pool
from tests.support.statement_log import StatementLog, record_statements

REQUEST = AdmissionRequest(bot=bot_request(), key=None)
CANCELLED = BotEnding(status=BotStatus.CANCELLED, reason="test")


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> StatementLog:
    return record_statements(monkeypatch)


async def idle(stage: Stage, replica: Replica, slots: int) -> None:
    """A pool of that many slots, used in order and idle again."""
    bots = await asyncio.gather(*(replica.admission.admit(bot_request()) for _ in range(slots)))
    await stage.settle(replica)
    for bot in bots:
        await stage.end(replica, bot.bot.id)
    await stage.settle(replica)
    assert [slot["status"] for slot in stage.slots()] == ["idle"] * slots


def assignment_of(stage: Stage, bot_id: BotId) -> AssignmentId:
    return AssignmentId(stage.slot_of(bot_id)["assignment_id"])


async def test_waiting_admissions_share_a_statement(stage: Stage, statements: StatementLog) -> None:
    replica = await stage.replica(pool(12))
    await idle(stage, replica, 12)
    caller = (await replica.api_keys.create("test", "user"))[0].caller
    statements.clear()
    answers = await asyncio.gather(
        *(replica.admission.admit(bot_request(caller=caller)) for _ in range(12))
    )
    carried = statements.batch_sizes("admit_to_idle_slots")
    assert sum(carried) == 12
    assert len(carried) <= 4, "each was sent alone"
    assert len({answer.bot.slot_name for answer in answers}) == 12
    ids = [answer.bot.id for answer in answers]
    assert ids == sorted(ids), "not in the order of arrival"
    for answer in answers:
        found = await replica.admission.find(answer.bot.id)
        assert found.bot == answer.bot, "the answer is not what was written"


async def test_failed_log_line_does_not_repeat_admissions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(8))
    await idle(stage, replica, 8)
    monkeypatch.setattr(event_log, "bots_assigned", lambda *_, **__: 1 / 0)
    failed: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(what))
    answers = await asyncio.gather(*(replica.admission.admit(bot_request()) for _ in range(4)))
    assert failed, "the log line came before the results, and failed"
    deploying = [slot["assigned_bot_id"] for slot in stage.slots() if slot["assigned_bot_id"]]
    assert sorted(deploying) == [answer.bot.id for answer in answers]


async def test_bots_beyond_idle_slots_queue_in_order_of_arrival(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    await idle(stage, replica, 3)
    caller = (await replica.api_keys.create("test", "user"))[0].caller
    answers = await asyncio.gather(
        *(replica.admission.admit(bot_request(caller=caller)) for _ in range(10))
    )
    waiting = [answer for answer in answers if answer.bot.status is BotStatus.QUEUED]
    assert len(waiting) == 7
    assert [answer.position for answer in waiting] == list(range(1, 8))
    for answer in waiting:
        found = await replica.admission.find(answer.bot.id)
        assert (found.bot, found.position) == (answer.bot, answer.position)


async def test_positions_of_concurrent_bots_follow_priorities(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    await replica.admission.admit(bot_request(priority=100))
    priorities = [200, 100, 1, 100]
    answers = await asyncio.gather(
        *(replica.admission.admit(bot_request(priority=priority)) for priority in priorities)
    )
    found = [(await replica.admission.find(answer.bot.id)).position for answer in answers]
    assert found == [5, 3, 1, 4]


async def test_invalid_bot_in_a_batch_fails_alone(stage: Stage) -> None:
    replica = await stage.replica(pool(6))
    await idle(stage, replica, 6)
    requests = [bot_request() for _ in range(5)]
    requests.insert(3, bot_request(bot_display_name="a NUL \x00 is no text"))
    answers = await asyncio.gather(
        *(replica.admission.admit(each) for each in requests), return_exceptions=True
    )
    failed = [isinstance(answer, Exception) for answer in answers]
    assert failed == [False, False, False, True, False, False]
    assert len(stage.rows("SELECT id FROM bots WHERE status = 'DEPLOYING'")) == 5


async def test_requests_with_and_without_key_run_concurrently(stage: Stage) -> None:
    replica = await stage.replica(pool(8))
    await idle(stage, replica, 8)
    answers = await asyncio.gather(
        *(replica.admission.admit(bot_request(), key("same") if n % 2 else None) for n in range(8))
    )
    assert len({answer.bot.id for answer in answers}) == 5
    assert len(stage.rows("SELECT id FROM bots WHERE status = 'DEPLOYING'")) == 5


async def test_refused_request_in_a_batch_rolls_back_alone(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    requests = [bot_request(), bot_request(queue_timeout_ms=0), bot_request()]
    answers = await asyncio.gather(
        *(replica.admission.admit(each) for each in requests), return_exceptions=True
    )
    assert [type(answer).__name__ for answer in answers] == [
        "AdmittedBot",
        "NoFreeSlot",
        "AdmittedBot",
    ]
    assert len(stage.rows("SELECT id FROM bots")) == 2


async def test_second_end_of_a_bot_in_a_batch_is_not_applied(stage: Stage) -> None:
    replica = await stage.replica(pool(4))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(4)]
    assignments = [assignment_of(stage, bot) for bot in bots]
    stale = replica.bot_endings.end(assignments[0], CANCELLED, version=1)
    ends = [replica.bot_endings.end(each, CANCELLED) for each in [*assignments, *assignments]]
    answers = await asyncio.gather(stale, *ends)
    assert answers[0] is False
    twice = list(zip(answers[1:5], answers[5:], strict=True))
    assert all(first is not second for first, second in twice), "each is ended once"
    ended = "SELECT bot_id FROM history WHERE to_state = 'CANCELLED' ORDER BY bot_id"
    assert [row["bot_id"] for row in stage.rows(ended)] == bots


async def test_batched_ends_and_releases_are_logged_and_counted(stage: Stage) -> None:
    replica = await stage.replica(pool(12))
    bots = [(await stage.run_bot(replica, correlation_id=f"c-{n}")).bot.id for n in range(12)]
    assignments = [assignment_of(stage, bot) for bot in bots]
    with structlog.testing.capture_logs() as written:
        await asyncio.gather(*(replica.bot_endings.end(each, CANCELLED) for each in assignments))
        await stage.settle(replica)
    moved = [line for line in written if line["event"] == "slot.transition"]
    assert any("each" in line for line in moved), "no lines were logged together"
    lines = [line | own for line in moved for own in line.get("each", [{}])]
    logged = [
        (line["bot"], line["correlation_id"], line["bot_status"], line["to"]) for line in lines
    ]
    mine = [(bot, f"c-{n}", "CANCELLED") for n, bot in enumerate(bots)]
    assert sorted(logged) == sorted((*own, to) for own in mine for to in ("idle", "releasing"))
    sample = replica.metrics.instruments.registry.get_sample_value
    of = {"pool": MEET, "status": "CANCELLED", "code": "none"}
    assert sample("botpool_bots_ended_total", of) == 12
    assert sample("botpool_release_seconds_count", {"pool": MEET}) == 12


async def test_failed_log_line_does_not_fail_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    monkeypatch.setattr(event_log, "bots_ended", lambda *_: 1 / 0)
    failed: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(what))
    assert await replica.bot_endings.end(assignment_of(stage, bot), CANCELLED)
    assert failed, "the log line came before the result, and failed"


async def test_batch_of_slots_is_freed_and_handed_over_in_one_transaction(stage: Stage) -> None:
    replica = await stage.replica(pool(6))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(6)]
    waiting = [(await replica.admission.admit(bot_request())).bot.id for _ in range(4)]
    for bot in bots:
        await stage.end(replica, bot)
    await stage.step(replica)
    assert stage.statuses(*waiting) == ["DEPLOYING"] * 4
    freed = {row["xid"] for row in stage.rows("SELECT xid FROM history WHERE to_state = 'idle'")}
    given = stage.rows("SELECT xid FROM history WHERE reason = 'a slot became free'")
    assert {row["xid"] for row in given} <= freed, "freed and handed over in two transactions"


async def test_release_with_empty_queue_runs_no_match(
    stage: Stage, statements: StatementLog
) -> None:
    replica = await stage.replica(pool(2))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(2)]
    for bot in bots:
        await stage.end(replica, bot)
    statements.clear()
    await stage.step(replica)
    assert [slot["status"] for slot in stage.slots()] == ["idle"] * 2
    freeing = [names for names in statements.transactions if "free_slots" in names]
    assert freeing
    assert all(names == ["lock_pool", "free_slots"] for names in freeing)


async def test_queueing_in_full_pool_runs_no_match(stage: Stage, statements: StatementLog) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = [await replica.admission.admit(bot_request())]
    statements.clear()
    waiting += [await replica.admission.admit(bot_request()) for _ in range(2)]
    assert [answer.position for answer in waiting] == [1, 2, 3]
    assert statements.transactions == [["lock_pool", "enqueue_bots", "settle_new_bots"]] * 2
    for answer in (first, *waiting):
        await stage.end(replica, answer.bot.id)
        await stage.settle(replica)
    late = await replica.admission.admit(bot_request())
    assert late.bot.status is BotStatus.DEPLOYING, "the pool was no longer full"


@pytest.mark.parametrize(("size", "busy", "queued"), [(1, 0, 0), (2, 1, 0), (1, 1, 1)])
async def test_only_full_pool_queues_without_match(
    stage: Stage, size: int, busy: int, queued: int
) -> None:
    """One has an idle slot, one can grow, and one is full."""
    replica = await stage.replica(pool(size))
    await idle(stage, replica, 1)
    for _ in range(busy):
        await stage.run_bot(replica)
    enqueue = enqueue_bots.statement(
        idempotency_days=1, max_length=100, match_follows=False, **new_bots([REQUEST])
    )
    lock = lock_pool.statement(pool_name=MEET)
    await replica.database.commit([lock, enqueue, settle_new_bots.statement()])
    assert len(enqueue.result) == len(stage.rows("SELECT bot_id FROM bot_pool_queue")) == queued


@pytest.mark.parametrize(
    "unwanted",
    [
        "delete_requested = true",
        "backend = 'elsewhere'",
        "number = 3, slot_name = 'pool-google-meet-003'",
    ],
)
async def test_unwanted_slot_is_freed_only_with_match(stage: Stage, unwanted: str) -> None:
    replica = await stage.replica(pool(2))
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    lease = lease_slots.statement(backends=["process"], limit=1, owner="test", lease_s=20)
    (slot,) = await replica.database.query(lease)
    stage.rows(f"UPDATE bot_pool_slots SET {unwanted}, version = version + 1")

    async def free(*, match_follows: bool) -> list[FreedSlot]:
        return await free_slots(
            replica.database,
            pool_name=MEET,
            match_follows=match_follows,
            slot_ids=[slot.slot_id],
            assignment_ids=[slot.assignment_id],
            versions=[slot.version + 1],
            statuses=[SlotStatus.IDLE],
            error_messages=[None],
            containers_gone=[False],
            reasons=["test"],
            abandoned=[False],
        )

    assert await free(match_follows=False) == []
    assert len(await free(match_follows=True)) == 1


async def test_failed_match_does_not_fail_slots_freed_before_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(2))
    for bot in [await stage.run_bot(replica) for _ in range(2)]:
        await stage.end(replica, bot.bot.id)
    stage.rows(
        "UPDATE bot_pool_slots SET delete_requested = true, version = version + 1 WHERE number = 2"
    )
    lease = lease_slots.statement(backends=["process"], limit=2, owner="test", lease_s=20)
    slots = sorted(await replica.database.query(lease), key=lambda slot: slot.slot_name)
    commit = Database.commit

    async def failing(database: Database, statements: Sequence[Statement[Any]]) -> None:
        if any(each.name == "shrink_pool" for each in statements):
            raise psycopg.errors.InternalError_("test")
        await commit(database, statements)

    monkeypatch.setattr(Database, "commit", failing)
    handover = replica.releaser.handover
    first, second = await asyncio.gather(
        *(handover.free(slot, container_gone=False) for slot in slots), return_exceptions=True
    )
    assert [slot["status"] for slot in stage.slots()] == ["idle", "releasing"]
    assert isinstance(first, FreedSlot)
    assert isinstance(second, psycopg.errors.InternalError_)


async def test_fenced_slot_in_a_batch_does_not_fail_the_others(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(3)]
    for bot in bots:
        await stage.end(replica, bot)
    come, go_on = stage.backend.hold("stop")
    releasing = asyncio.create_task(stage.step(replica))
    await come.wait()
    stage.rows("UPDATE bot_pool_slots SET version = version + 1 WHERE number = 2")
    go_on.set()
    await releasing
    assert [slot["status"] for slot in stage.slots()] == ["idle", "releasing", "idle"]
    await stage.settle(replica)
    assert [slot["status"] for slot in stage.slots()] == ["idle"] * 3


async def test_position_beyond_counted_ones_is_nearly_exact(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    with_many = (
        "WITH bot AS (INSERT INTO bots (pool_name, status, meeting_url, bot_display_name, bot_data,"
        " "
        "priority, queue_timeout_ms, correlation_id, created_at, queued_at) "
        "SELECT 'google-meet', 'QUEUED', 'u', 'n', '{}', 100, 1000, 'c', botpool_now(), "
        "botpool_now() FROM generate_series(1, 1500) RETURNING id) "
        "INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at) "
        "SELECT id, 'google-meet', botpool_now(), botpool_now() + interval '1 hour' FROM bot "
        "RETURNING id"
    )
    stage.rows(with_many)
    far = await replica.admission.admit(bot_request())
    assert far.position == 1501
    urgent = await replica.admission.admit(bot_request(priority=1))
    assert urgent.position == 1
    assert (await replica.admission.find(far.bot.id)).position == 1502
    stage.rows("TRUNCATE bots, bot_pool_queue, history CASCADE")
    assert MEET
