"""Metrics after events of the engine, and the cost of counting."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    ContainerGone,
    DatabaseUnavailable,
    NoFreeSlot,
    PoolDrained,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.lifecycle.queue_poller import QueuePoller
from botpool.engine.observability.instrumented_backend import InstrumentedBackend
from botpool.engine.observability.metrics import Metrics
from botpool.engine.observability.metrics_export import MetricsExport
from botpool.engine.replica import Replica
from botpool.engine.runtime.leases import timed
from botpool.store.database import Database
from tests.support.fences import ANY_ASSIGNMENT
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, key, pool
from tests.support.scripted_backend import ScriptedBackend
from tests.support.statement_log import record_statements


def value(source: Replica | Metrics, name: str, **labels: str) -> float:
    """Return the value of a sample; 0 if it was never set."""
    metrics = source if isinstance(source, Metrics) else source.metrics
    registry = metrics.instruments.registry
    return registry.get_sample_value(f"botpool_{name}", labels) or 0


def admissions(replica: Replica, pool_name: str = MEET) -> dict[str, float]:
    outcomes = ("warm", "cold", "queued", "refused", "replayed")
    counted = {
        outcome: value(replica, "admissions_total", pool=pool_name, outcome=outcome)
        for outcome in outcomes
    }
    return {outcome: count for outcome, count in counted.items() if count}


async def test_admissions_are_counted_by_outcome(stage: Stage) -> None:
    replica = await stage.replica(pool(1), pool(0, TEAMS))
    first = await stage.run_bot(replica)
    assert admissions(replica) == {"cold": 1}
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    await replica.admission.admit(bot_request(), key())
    await replica.admission.admit(bot_request(), key())
    await replica.admission.admit(bot_request())
    with pytest.raises(NoFreeSlot):
        await replica.admission.admit(bot_request(queue_timeout_ms=0))
    assert admissions(replica) == {"cold": 1, "warm": 1, "replayed": 1, "queued": 1, "refused": 1}
    for start in ("warm", "cold"):
        assert value(replica, "assignments_total", pool=MEET, start=start) == 1
    await replica.pools.drain(TEAMS, drained=True, reason="test")
    with pytest.raises(PoolDrained):
        await replica.admission.admit(bot_request(TEAMS))
    assert admissions(replica, TEAMS) == {"refused": 1}


async def test_warm_admission_is_one_statement(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    statements = record_statements(monkeypatch)
    await replica.admission.admit(bot_request())
    assert statements.single == ["admit_to_idle_slots"]


async def test_time_to_running_is_measured_by_phase(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.clock.freeze()
    stage.backend.state_after_start = ContainerState.STARTING
    admitted = await replica.admission.admit(bot_request())
    stage.clock.move(3)
    await stage.step(replica)  # created, leads its image, passes the gate, starts
    stage.clock.move(40)
    stage.backend.show(stage.slot_of(admitted.bot.id)["container_id"], ContainerState.RUNNING)
    await replica.observer.observe("process")

    def seconds(name: str, **labels: str) -> tuple[float, float]:
        count = value(replica, f"{name}_count", pool=MEET, **labels)
        return count, value(replica, f"{name}_sum", pool=MEET, **labels)

    assert seconds("time_to_running_seconds", start="cold") == (1, 43)
    phases = {
        phase: seconds("deploy_phase_seconds", phase=phase)
        for phase in ("creating", "waiting_for_image", "waiting_for_start", "starting")
    }
    assert phases == {
        "creating": (1, 3),
        "waiting_for_image": (1, 0),
        "waiting_for_start": (1, 0),
        "starting": (1, 40),
    }


async def test_hand_over_is_measured_if_a_bot_was_queued(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.clock.freeze()
    first = await stage.run_bot(replica)
    waiting = await replica.admission.admit(bot_request())
    await stage.end(replica, first.bot.id)
    stage.clock.move(7)
    await stage.settle(replica)
    assert value(replica, "release_seconds_sum", pool=MEET) == 7
    assert value(replica, "hand_over_seconds_sum", pool=MEET) == 7
    await stage.end(replica, waiting.bot.id)
    stage.clock.move(2)
    await stage.settle(replica)
    assert value(replica, "release_seconds_sum", pool=MEET) == 9
    assert value(replica, "release_seconds_count", pool=MEET) == 2
    assert value(replica, "hand_over_seconds_count", pool=MEET) == 1


async def test_ended_bots_are_counted_by_status_and_code(stage: Stage) -> None:
    replica = await stage.replica(pool(1), pool(0, TEAMS), policy=Policy(deploy_attempts=1))

    def ended(pool_name: str, status: str, code: str = "none") -> float:
        return value(replica, "bots_ended_total", pool=pool_name, status=status, code=code)

    done = await stage.run_bot(replica)
    await stage.end(replica, done.bot.id)
    await stage.settle(replica)
    assert ended(MEET, "DONE") == 1

    stage.backend.fail("start", BackendRefused("image", "is not there"))
    await stage.run_bot(replica)
    assert ended(MEET, "FAILED", "deploy_failed") == 1

    waiting = await replica.admission.admit(bot_request(TEAMS))
    await replica.bot_stopper.stop(waiting.bot.id)
    assert ended(TEAMS, "CANCELLED") == 1

    await replica.admission.admit(bot_request(TEAMS, queue_timeout_ms=1000))
    stage.clock.move(2)
    await replica.queue_poller.poll()
    assert ended(TEAMS, "FAILED", "queue_timeout") == 1


async def test_heartbeats_are_counted_by_instruction(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    assignment = AssignmentId(stage.slot_of(bot.id)["assignment_id"])
    await replica.agents.heartbeat(assignment, bot.id)
    await replica.bot_stopper.stop(bot.id)
    await replica.agents.heartbeat(assignment, bot.id)
    await stage.end(replica, bot.id)
    await replica.agents.heartbeat(assignment, bot.id)
    for instruction in ("go_on", "leave", "exit"):
        assert value(replica, "heartbeats_total", instruction=instruction) == 1


async def test_fenced_write_is_counted(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await replica.admission.admit(bot_request())).bot
    come, go_on = stage.backend.hold("start")
    await replica.reconciler.run_due_steps()
    await come.wait()
    await replica.bot_stopper.stop(bot.id)
    go_on.set()
    (task,) = replica.reconciler.under_way
    assert value(replica, "steps_under_way") == 1
    await task
    assert value(replica, "steps_under_way") == 0
    assert value(replica, "fenced_writes_total", wanted="deploy") == 1
    await stage.settle(replica)


CALLS = [
    (None, "ok"),
    (ContainerGone("c"), "gone"),
    (BackendRefused("image", "is not there"), "refused"),
    (StartSuperseded("c", "stopped"), "superseded"),
    (BudgetExhausted("200 a minute", 3), "budget"),
    (StillRunning("it runs"), "still_running"),
    (BackendUnavailable("down"), "unavailable"),
    (DatabaseUnavailable("down"), "error"),
]


@pytest.mark.parametrize(("error", "outcome"), CALLS, ids=[outcome for _, outcome in CALLS])
async def test_backend_calls_are_counted_by_outcome(error: Any, outcome: str) -> None:
    metrics, scripted = Metrics(), ScriptedBackend()
    backend = InstrumentedBackend(scripted, metrics)
    if error is None:
        await backend.delete(ContainerId("c"), stop_through=ANY_ASSIGNMENT, timeout_s=1)
    else:
        scripted.fail("delete", error)
        with pytest.raises(type(error)) as caught:
            await backend.delete(ContainerId("c"), stop_through=ANY_ASSIGNMENT, timeout_s=1)
        assert caught.value is error
    labels = {"backend": "process", "call": "delete"}
    assert value(metrics, "backend_calls_total", outcome=outcome, **labels) == 1
    assert value(metrics, "backend_call_seconds_count", **labels) == 1


async def test_backend_call_that_times_out_is_unavailable() -> None:
    metrics, scripted = Metrics(), ScriptedBackend()
    backend = InstrumentedBackend(scripted, metrics)
    scripted.hold("delete")
    with pytest.raises(BackendUnavailable):
        await timed(
            lambda timeout_s: backend.delete(
                ContainerId("c"), stop_through=ANY_ASSIGNMENT, timeout_s=timeout_s
            ),
            0.01,
        )
    labels = {"backend": "process", "call": "delete", "outcome": "unavailable"}
    assert value(metrics, "backend_calls_total", **labels) == 1


async def test_instrumented_backend_has_attributes_of_backend() -> None:
    scripted = ScriptedBackend()
    backend = InstrumentedBackend(scripted, Metrics())
    scripted.status_lag_s, scripted.concurrent_starts, scripted.image_host = 60.0, 4, "elsewhere"
    assert (backend.name, backend.image_host, backend.has_descriptions) == (
        "process",
        "elsewhere",
        True,
    )
    assert (backend.status_lag_s, backend.concurrent_starts) == (60.0, 4)


async def test_backend_health_is_its_last_check(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await replica.readiness.check_backends()
    assert value(replica, "backend_healthy", backend="process") == 1


async def test_loop_round_without_database_is_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def down(*_: Any) -> Any:
        asked.set()
        raise DatabaseUnavailable("down")

    monkeypatch.setattr(QueuePoller, "poll", down)
    replica = await stage.replica(pool(1))
    await replica.start()
    await asyncio.wait_for(asked.wait(), 30)
    await asyncio.sleep(0)  # the loop counts the failure before it waits
    await replica.stop()
    assert value(replica, "database_unavailable_rounds_total", loop="queue") >= 1


async def test_listening_shows_current_state(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    assert value(replica, "listening") == 0
    replica.wakeups.listening = True
    assert value(replica, "listening") == 1


async def test_recoveries_are_counted_by_reason() -> None:
    metrics = Metrics()
    metrics.recovered("heartbeat_lost")
    assert value(metrics, "recoveries_total", reason="heartbeat_lost") == 1


class ManualClock:
    """A monotonic clock that a test advances."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def monotonic() -> Iterator[ManualClock]:
    yield ManualClock()


async def test_pool_metrics_come_from_the_database(stage: Stage, monotonic: ManualClock) -> None:
    replica = await stage.replica(pool(2), pool(0, TEAMS))
    export = MetricsExport(
        replica.database,
        replica.metrics,
        floors=replica.standby_keeper.floors,
        monotonic=monotonic,
    )
    await stage.run_bot(replica)
    await replica.admission.admit(bot_request(TEAMS))
    stage.clock.move(30)
    await export.text()
    assert value(replica, "slots", pool=MEET, status="busy") == 1
    assert value(replica, "slots", pool=MEET, status="idle") == 0
    assert value(replica, "pool_max_slots", pool=MEET) == 2
    assert value(replica, "queue_depth", pool=TEAMS) == 1
    assert 30 <= value(replica, "queue_oldest_wait_seconds", pool=TEAMS) < 60
    assert value(replica, "queue_oldest_wait_seconds", pool=MEET) == 0
    assert value(replica, "database_reachable") == 1


async def test_cordoned_slot_is_idle_but_not_assignable(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    (slot,) = stage.slots()
    await replica.pools.cordon(slot["id"], cordoned=True, reason="test")
    await replica.metrics_export.text()
    assert value(replica, "slots", pool=MEET, status="idle") == 1
    assert value(replica, "slots_assignable", pool=MEET) == 0


async def test_scrapes_read_the_database_once_in_five_seconds(
    stage: Stage, monotonic: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(1))
    export = MetricsExport(
        replica.database,
        replica.metrics,
        floors=replica.standby_keeper.floors,
        monotonic=monotonic,
    )
    statements = record_statements(monkeypatch)
    for _ in range(10):
        await export.text()
    monotonic.now += 4.9
    await export.text()
    queries = [
        "measure_pools",
        "list_egresses",
        "list_rollouts",
        "list_warm_pools",
        "measure_webhooks",
        "list_open_transactions",
    ]
    assert statements.single == queries
    monotonic.now += 0.1
    await export.text()
    assert statements.single == queries * 2


async def test_pool_metrics_are_absent_without_database(
    stage: Stage, monotonic: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(1))
    export = MetricsExport(
        replica.database,
        replica.metrics,
        floors=replica.standby_keeper.floors,
        monotonic=monotonic,
    )
    assert b'botpool_queue_depth{pool="google-meet"} 0.0' in await export.text()

    async def down(*_: Any) -> Any:
        raise DatabaseUnavailable("down")

    monkeypatch.setattr(Database, "commit", down)
    monotonic.now += 5
    text = await export.text()
    assert b"botpool_database_reachable 0.0" in text
    assert b"botpool_queue_depth{" not in text
    assert b"botpool_build_info{" in text
