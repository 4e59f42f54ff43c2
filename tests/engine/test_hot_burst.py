"""A burst of three times the floor: hot slots go first, the refill delays no bot, and it ends."""

import asyncio
from collections import Counter

from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request
from tests.support.standbys import StandbyAgent, hot_pool, keep

HOT, SLOTS, BURST = 10, 20, 30


def standbys(stage: Stage) -> Counter[str | None]:
    return Counter(slot["standby"] for slot in stage.slots() if slot["status"] == "idle")


def queued(stage: Stage) -> int:
    return int(stage.rows("SELECT count(*) AS n FROM bot_pool_queue")[0]["n"])


async def open_polls(stage: Stage, replica: Replica) -> list[StandbyAgent]:
    slots = [slot for slot in stage.slots() if slot["standby"] == "starting"]
    agents = [StandbyAgent(replica, slot, boot=f"boot-{slot['id']}") for slot in slots]
    for agent in agents:
        await agent.open(stage)
    return agents


async def test_floor_of_ten_serves_a_burst_of_thirty_and_is_full_again(stage: Stage) -> None:
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    replica = await stage.replica(hot_pool(HOT, max_size=SLOTS))
    await keep(stage, replica)
    agents = await open_polls(stage, replica)
    assert standbys(stage) == {"ready": HOT}

    request = bot_request(queue_timeout_ms=600_000)
    bots = [
        each.bot.id
        for each in await asyncio.gather(*(replica.admission.admit(request) for _ in range(BURST)))
    ]
    phases = Counter(slot["phase"] for slot in stage.slots())
    assert phases["handing_over"] == HOT, "ten bots start at once"
    assert (phases["creating"], queued(stage)) == (SLOTS - HOT, BURST - SLOTS)
    for agent in agents:
        assert not await agent.accept(await agent.answer())
    assert Counter(stage.statuses(*bots))["JOINING_CALL"] == HOT

    while running := [bot for bot in bots if stage.bot(bot)["status"] == "JOINING_CALL"]:
        waiting = queued(stage)
        for bot in running[:5]:
            await stage.end(replica, bot)
        await keep(stage, replica)
        assert queued(stage) == max(0, waiting - 5), "freed slots go to the next bots"
        if queued(stage):
            assert not standbys(stage), "no standby takes a slot from a waiting bot"
        stage.clock.move(1)

    assert set(stage.statuses(*bots)) == {"DONE"}
    stage.clock.move(2)
    await keep(stage, replica)
    await open_polls(stage, replica)
    assert standbys(stage)["ready"] == HOT, "the floor is full again"
    assert_invariants(stage.url)
