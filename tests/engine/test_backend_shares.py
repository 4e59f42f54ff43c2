"""State of a backend that replicas share: its request budget, its pause and its descriptions."""

import asyncio

import pytest

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import (
    BackendUnavailable,
    BudgetExhausted,
    ContainerGone,
)
from botpool.domain.observation import ContainerState
from botpool.engine.runtime.request_budget import SharedRequestBudget
from tests.engine.lagging_backend import container, deployed, observed_running
from tests.support.replicas import Stage, bot_request, pool


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True
    stage.backend.status_lag_s = 60.0


async def test_step_waits_until_the_request_budget_is_renewed(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.fail("ensure", BudgetExhausted("the budget is spent", 40.0))
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    stage.clock.move(39)
    assert await stage.step(replica) == 0
    stage.clock.move(2)
    assert await stage.step(replica) == 1


async def test_requests_of_a_minute_stay_within_the_budget(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.clock.freeze()
    budgets = [
        SharedRequestBudget(database=database, backend="process", requests_per_minute=200)
        for database in (replica.database, (await stage.replica()).database)
    ]

    async def take(number: int, purpose: RequestPurpose, requests: int) -> bool:
        try:
            await budgets[number % 2].take(purpose, requests)
        except BudgetExhausted:
            return False
        return True

    taken = await asyncio.gather(*(take(n, RequestPurpose.STOP, 1) for n in range(300)))
    assert sum(taken) == 200
    stage.clock.move(67)
    assert not await take(0, RequestPurpose.STOP, 1), "granted requests may still be in progress"
    stage.clock.move(6)
    assert await take(0, RequestPurpose.DESCRIPTION, 100)
    assert not await take(0, RequestPurpose.DESCRIPTION, 1), (
        "the rest is reserved for more urgent requests"
    )
    assert await take(0, RequestPurpose.CREATE, 40)
    assert not await take(0, RequestPurpose.CREATE, 1)
    assert await take(0, RequestPurpose.START, 30)
    assert not await take(0, RequestPurpose.START, 1)
    assert await take(0, RequestPurpose.OBSERVE, 20)
    assert not await take(0, RequestPurpose.OBSERVE, 1)
    assert await take(1, RequestPurpose.STOP, 10)
    assert not await take(1, RequestPurpose.STOP, 1)


async def test_pause_of_a_backend_applies_to_all_replicas(stage: Stage) -> None:
    first, second = await stage.replica(pool(1)), await stage.replica()
    ours = SharedRequestBudget(database=first.database, backend="process", requests_per_minute=200)
    theirs = SharedRequestBudget(
        database=second.database, backend="process", requests_per_minute=200
    )
    await ours.pause(30)
    with pytest.raises(BudgetExhausted) as refused:
        await theirs.take(RequestPurpose.STOP, 1)
    assert 29 <= refused.value.retry_after_s <= 30
    stage.clock.move(31)
    await theirs.take(RequestPurpose.STOP, 1)


async def test_descriptions_follow_the_slot_in_order(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.describer.describe_due()
    await observed_running(stage, replica)
    come, go_on = stage.backend.hold("describe")
    slow = asyncio.create_task(replica.describer.describe_due())
    await come.wait()
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.observer.observe("process")
    await other.describer.describe_due()
    assert len(stage.backend.calls_of("describe")) == 2, "one description at a time"
    go_on.set()
    await slow
    await other.describer.describe_due()
    await other.describer.describe_due()
    described = [str(text).split(" - ")[0] for text in stage.backend.calls_of("describe")]
    assert described == ["[DEPLOYING] Bot #1", "[BUSY] Bot #1", "[IDLE] Available"]


async def test_unanswered_description_delays_the_next_one(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.fail("describe", BackendUnavailable("no answer"))
    await replica.describer.describe_due()
    await observed_running(stage, replica)
    await replica.describer.describe_due()
    assert len(stage.backend.calls_of("describe")) == 1
    stage.clock.move(31)
    await replica.describer.describe_due()
    assert str(stage.backend.calls_of("describe")[-1]).startswith("[BUSY] Bot #1")


async def test_missing_container_is_not_described(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.fail("describe", ContainerGone("gone"))
    for _ in range(3):
        await replica.describer.describe_due()
        stage.clock.move(31)
    assert len(stage.backend.calls_of("describe")) == 1
