"""Faults of the first system that no other test covers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import structlog

from botpool.domain.errors import BackendUnavailable
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.maintenance.recovery import RecoveryResult
from tests.engine.recovery_cases import pass_time, start_bot
from tests.support.replicas import Stage, bot_request, pool


async def test_bot_stopped_while_it_waits_for_an_image_never_starts(stage: Stage) -> None:
    """Lesson 6: after a wait, the slot's assignment is checked again."""
    replica = await stage.replica(pool(2))
    await start_bot(stage, replica)
    stopped = await start_bot(stage, replica)
    leader, waiting = stage.slots()
    assert waiting["phase"] == "waiting_for_image"
    await replica.bot_stopper.stop(stopped)
    await stage.settle(replica)
    following = await start_bot(stage, replica)
    assert stage.slot_of(following)["slot_name"] == waiting["slot_name"]
    stage.backend.finish(leader["container_id"])
    stage.backend.show(leader["container_id"], ContainerState.RUNNING)
    await stage.settle(replica)
    started = stage.backend.calls_of("start")
    assert started == [leader["assignment_id"], stage.slot_of(following)["assignment_id"]]
    assert stage.statuses(stopped) == ["CANCELLED"]


async def test_time_in_the_queue_does_not_count_as_deployment(stage: Stage) -> None:
    """Lesson 11: a bot admitted 20 minutes ago that has been deploying for 10 minutes."""
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot.id
    bot = (await replica.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
    await pass_time(stage, replica, 590)
    stage.backend.has_deployments = True
    await stage.end(replica, first)
    await stage.settle(replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await pass_time(stage, replica, 600)
    assert await replica.recovery.recover() == RecoveryResult()
    assert stage.statuses(bot) == ["DEPLOYING"]


@pytest.mark.parametrize("call", ["ensure", "start"])
async def test_step_is_repeated_after_an_unforeseen_error(stage: Stage, call: str) -> None:
    """Lesson 12: the slot keeps its next step."""
    replica = await stage.replica(pool(1))
    stage.backend.fail(call, ZeroDivisionError())  # type: ignore[arg-type]
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.step(replica)
    assert stage.statuses(bot) == ["DEPLOYING"]
    stage.clock.move(30)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.bot(bot)["attempts"] == 1


async def test_bot_fails_as_internal_when_unforeseen_errors_last(stage: Stage) -> None:
    """Lesson 12: an unforeseen error has the same limit as an unavailable backend."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("ensure", *[ZeroDivisionError()] * 3)  # type: ignore[list-item]
    bot = (await replica.admission.admit(bot_request())).bot.id
    for _ in range(3):
        await stage.step(replica)
        stage.clock.move(901)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "internal"
    assert "ZeroDivisionError" in stage.bot(bot)["failure_reason"]


@pytest.mark.parametrize("stop", ["fails", "does nothing"])
async def test_failed_stop_leaves_an_ended_bot_done(stage: Stage, stop: str) -> None:
    """Lesson 19: the end of the container does not change the end of the bot."""
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    ended = stage.bot(bot)
    if stop == "fails":
        stage.backend.fail("stop", *[BackendUnavailable("502")] * 4)
    else:
        stage.backend.stops_work = False
    for _ in range(12):
        stage.clock.move(20)
        await stage.step(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.bot(bot) == ended
    assert ended["status"] == "DONE"


async def test_rolled_back_hand_over_is_not_logged(stage: Stage) -> None:
    """Lesson 20: log lines, metrics and wake-ups follow the commit."""
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    replica.wakeups.slots.clear()
    with structlog.testing.capture_logs() as log, commits_fail(stage.url):
        await stage.step(replica)
        assert stage.slots()[0]["status"] == "releasing"
        assert transitions_in(log) == []
        assert not replica.wakeups.slots.is_set()
    stage.clock.move(30)
    with structlog.testing.capture_logs() as log:
        await stage.step(replica)
    assert transitions_in(log) == [("releasing", "idle"), ("idle", "deploying")]
    assert replica.wakeups.slots.is_set()
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_rolled_back_admission_is_not_logged(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    with structlog.testing.capture_logs() as log, commits_fail(stage.url):
        with pytest.raises(psycopg.errors.RaiseException):
            await replica.admission.admit(bot_request())
        assert transitions_in(log) == []
        assert not replica.wakeups.slots.is_set()
    assert stage.rows("SELECT * FROM bots") == []


async def test_stopped_replica_returns_its_leases(stage: Stage) -> None:
    """Another replica continues at once: time stands still, so no lease expires."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    stage.clock.freeze()
    bot = (await replica.admission.admit(bot_request())).bot.id
    come, _ = stage.backend.hold("start")
    await replica.reconciler.run_due_steps()
    await come.wait()
    assert await stage.step(other) == 0, "the lease is respected while its call is in progress"
    await replica.reconciler.return_leases(within_s=0)
    assert await stage.step(other) == 1
    await stage.settle(other)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert len(stage.backend.runs) == 1


def transitions_in(log: list[Any]) -> list[tuple[str, str]]:
    return [(line["from"], line["to"]) for line in log if line["event"].endswith(".transition")]


@contextmanager
def commits_fail(url: str) -> Iterator[None]:
    """Make the commit of every transaction fail that writes a slot's status."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'refused at the commit'; END$$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER refuses AFTER INSERT OR UPDATE OF status ON bot_pool_slots "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        yield
        connection.execute("DROP TRIGGER refuses ON bot_pool_slots")
        connection.execute("DROP FUNCTION refuse()")
