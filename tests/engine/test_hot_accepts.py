"""Accepts of a burst share transactions, and each has a result of its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from botpool.domain.errors import NotFound
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.engine.agents.standby_polls import PollAnswer
from botpool.engine.replica import Replica
from botpool.store.database import Database
from botpool.store.query import Statement
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request
from tests.support.standbys import StandbyAgent, hot_pool, keep

HOT = 12


async def answered(stage: Stage, replica: Replica) -> dict[StandbyAgent, PollAnswer]:
    """Start standbys, and give each a bot."""
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())")
    await keep(stage, replica)
    agents = [
        StandbyAgent(replica, slot, boot=f"boot-{slot['id']}")
        for slot in stage.slots()
        if slot["standby"] == "starting"
    ]
    for agent in agents:
        await agent.open(stage)
    for _ in agents:
        await replica.admission.admit(bot_request())
    return {agent: await agent.answer() for agent in agents}


def count_accepts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of accepts of each transaction."""
    sizes: list[int] = []
    commit = Database.commit

    async def counted(database: Database, statements: Sequence[Statement[Any]]) -> None:
        sizes.extend(
            len(statement.parameters["assignment_ids"])
            for statement in statements
            if statement.name == "accept_assignments"
        )
        await commit(database, statements)

    monkeypatch.setattr(Database, "commit", counted)
    return sizes


async def test_accepts_of_a_burst_share_transactions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(hot_pool(HOT, max_size=HOT))
    answers = await answered(stage, replica)
    sizes = count_accepts(monkeypatch)
    exits = await asyncio.gather(*(agent.accept(each) for agent, each in answers.items()))
    assert exits == [False] * HOT
    assert sum(sizes) == HOT and len(sizes) <= HOT // 2, sizes
    assert {slot["status"] for slot in stage.slots()} == {"busy"}
    boots = stage.rows("SELECT slot_id, boot_id FROM assignments")
    assert {row["boot_id"] for row in boots} == {f"boot-{row['slot_id']}" for row in boots}
    assert_invariants(stage.url)


async def test_late_foreign_and_invalid_accepts_of_a_batch_leave_the_others_alone(
    stage: Stage,
) -> None:
    replica = await stage.replica(hot_pool(HOT, max_size=HOT))
    answers = await answered(stage, replica)
    (stopped, _), (other_run, _), (other_container, _), (invalid, _), *good = answers.items()
    handover = answers[stopped].handover
    assert handover is not None
    await replica.bot_stopper.stop(handover.bot_id)
    other_run.run_id = AssignmentId(other_run.run_id + 10**6)
    other_container.container_id = ContainerId("another")
    invalid.container_id = ContainerId("\0")

    results = await asyncio.gather(
        stopped.accept(answers[stopped]),
        *(agent.accept(answer) for agent, answer in good[:4]),
        replica.agents.accept(
            assignment_of(answers[other_run]), other_run.run_id, other_run.container_id, "b"
        ),
        other_container.accept(answers[other_container]),
        invalid.accept(answers[invalid]),
        replica.agents.accept(AssignmentId(10**9), AssignmentId(1), ContainerId("c"), "b"),
        *(agent.accept(answer) for agent, answer in good[4:]),
        return_exceptions=True,
    )
    assert results[0] is True, "its bot was stopped"
    assert results[1:5] + results[9:] == [False] * len(good)
    assert isinstance(results[5], tuple) and results[5][1], "another run exits"
    assert isinstance(results[6], NotFound)
    assert isinstance(results[7], Exception) and not isinstance(results[7], NotFound)
    assert isinstance(results[8], NotFound)
    statuses = {slot["id"]: slot["status"] for slot in stage.slots()}
    assert {statuses[agent.slot_id] for agent, _ in good} == {"busy"}
    waiting = {other_run, other_container, invalid}
    assert {statuses[agent.slot_id] for agent in waiting} == {"deploying"}
    assert_invariants(stage.url)


def assignment_of(answer: PollAnswer) -> AssignmentId:
    assert answer.handover is not None
    return answer.handover.assignment_id
