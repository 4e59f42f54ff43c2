"""The checks of the demo accept a good run and report each kind of problem."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from botpool.cli.demo.checks import find_problems
from botpool.cli.demo.emulated_coolify import CoolifyCounts
from botpool.cli.demo.scenario import BOTS, SLOTS
from botpool.cli.demo.snapshots import Snapshot
from botpool.client import Bot, Slot
from botpool.client.records import read
from tests.support.fake_api import bot_json, slot_json

Fault = Callable[[Snapshot], Snapshot]


def second(number: float) -> datetime:
    return datetime(2026, 3, 1, 10, tzinfo=UTC) + timedelta(seconds=number)


def good_run() -> Snapshot:
    """Four bots at once, the others from the queue, the bot with priority 1 first."""
    order = [0, 1, 2, 3, 11, 4, 5, 6, 7, 8, 9, 10]
    bots = {}
    for turn, index in enumerate(order):
        expected = BOTS[index]
        cold = turn < SLOTS
        bots[index + 1] = replace(
            read(Bot, bot_json(index + 1)),
            status=str(expected.status),
            failure_code=expected.failure_code and str(expected.failure_code),
            failure_reason=expected.failure_code and "Because.",
            slot_name=f"pool-google-meet-00{(turn + 2) % SLOTS + 1}",
            created_at=second(0),
            queued_at=None if cold else second(0.5),
            assigned_at=second(turn * 2),
            started_at=second(turn * 2 + (3.2 if cold else 0.4)),
            ended_at=second(turn * 2 + 5),
        )
    names = [f"pool-google-meet-00{n}" for n in range(1, SLOTS + 1)]
    return Snapshot(
        sent={number + 1: bot for number, bot in enumerate(BOTS)},
        bots=[bots[number] for number in sorted(bots)],
        slots=[read(Slot, slot_json(name=name, status="idle")) for name in names],
        queue=[],
        now=datetime.now(UTC),
        elapsed_s=20,
    )


def bot_with(number: int, **fields: Any) -> Fault:
    def change(run: Snapshot) -> Snapshot:
        changed = [replace(bot, **fields) if bot.id == number else bot for bot in run.bots]
        return replace(run, bots=changed)

    return change


def slot_still_releasing(run: Snapshot) -> Snapshot:
    return replace(run, slots=[replace(run.slots[0], status="releasing"), *run.slots[1:]])


def bot_missing(run: Snapshot) -> Snapshot:
    return replace(run, bots=run.bots[1:])


def starts_equally_quick(run: Snapshot) -> Snapshot:
    return replace(run, bots=[replace(bot, started_at=bot.assigned_at) for bot in run.bots])


def crashed_slot_unused(run: Snapshot) -> Snapshot:
    first, _, crashed = run.bots[:3]
    changed = [
        replace(bot, slot_name=first.slot_name)
        if bot.id > SLOTS and bot.slot_name == crashed.slot_name
        else bot
        for bot in run.bots
    ]
    return replace(run, bots=changed)


def test_good_run_has_no_problem() -> None:
    run = good_run()
    assert run.is_last
    assert find_problems(run, BOTS) == []


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (bot_with(1, status="IN_CALL"), "bot 1 Ada is still IN_CALL"),
        (bot_with(1, status="FAILED", failure_code="internal"), "instead of DONE"),
        (bot_with(3, status="DONE", failure_code=None), "instead of FAILED container_exited"),
        (bot_with(7, failure_code="container_exited"), "instead of FAILED meeting_failed"),
        (bot_with(12, assigned_at=second(50)), "did not get the first free slot"),
        (slot_still_releasing, "pool-google-meet-001 is still releasing"),
        (bot_missing, "12 bots were sent, but the server lists 11"),
        (starts_equally_quick, "not quicker"),
        (crashed_slot_unused, "ran no bot after its crash"),
    ],
)
def test_problem_is_found(fault: Fault, text: str) -> None:
    found = find_problems(fault(good_run()), BOTS)
    assert any(text in each for each in found), found


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (CoolifyCounts(pulls=1, most_requests=200, containers=0), None),
        (CoolifyCounts(pulls=2, most_requests=30, containers=0), "pulled 2 times instead of once"),
        (CoolifyCounts(pulls=1, most_requests=201, containers=0), "received 201 requests"),
    ],
)
def test_counts_of_coolify_are_checked(counts: CoolifyCounts, text: str | None) -> None:
    found = find_problems(replace(good_run(), counts=counts), BOTS)
    assert len(found) == (text is not None)
    assert all(text is not None and text in each for each in found), found
