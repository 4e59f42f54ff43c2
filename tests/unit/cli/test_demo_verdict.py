"""The demo finds fault with a run that was not as promised, and only then."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from botpool.cli import shapes
from botpool.cli.demo.cast import CAST, SLOTS
from botpool.cli.demo.emulated import Counted
from botpool.cli.demo.play import Scene
from botpool.cli.demo.verdict import complaints
from tests.unit.cli.answering import bot

Fault = Callable[[Scene], None]


def second(number: float) -> str:
    return f"2026-03-01T10:00:{number:09.6f}Z"


def good_run() -> Scene:
    """As it should be: four at once, the rest from the queue, the one in a hurry first."""
    order = [0, 1, 2, 3, 11, 4, 5, 6, 7, 8, 9, 10]
    bots = {}
    for turn, index in enumerate(order):
        part = CAST[index]
        cold = turn < SLOTS
        bots[index + 1] = bot(
            index + 1,
            status=str(part.status),
            failureCode=part.failure_code and str(part.failure_code),
            failureReason=part.failure_code and "Because.",
            slotName=f"pool-google-meet-00{(turn + 2) % SLOTS + 1}",
            createdAt=second(0),
            queuedAt=None if cold else second(0.5),
            assignedAt=second(turn * 2),
            startedAt=second(turn * 2 + (3.2 if cold else 0.4)),
            endedAt=second(turn * 2 + 5),
        )
    slots = [{"name": f"pool-google-meet-00{n}", "status": "idle"} for n in range(1, SLOTS + 1)]
    return Scene(
        parts={number + 1: part for number, part in enumerate(CAST)},
        bots=cast("list[shapes.Bot]", [bots[number] for number in sorted(bots)]),
        slots=cast("list[shapes.Slot]", slots),
        queue=[],
        now=datetime.now(UTC),
        elapsed_s=20,
    )


def changed(number: int, **fields: Any) -> Fault:
    return lambda scene: cast("dict[str, Any]", scene.bots[number - 1]).update(fields)


def stuck(scene: Scene) -> None:
    scene.slots[0]["status"] = "releasing"


def lost(scene: Scene) -> None:
    cast("list[shapes.Bot]", scene.bots).pop(0)


def slow(scene: Scene) -> None:
    for each in scene.bots:
        each["startedAt"] = each["assignedAt"]


def abandoned(scene: Scene) -> None:
    """Nobody ran again where the crash was."""
    for each in scene.bots:
        if each["id"] > 4 and each["slotName"] == scene.bots[2]["slotName"]:
            each["slotName"] = scene.bots[0]["slotName"]


def test_a_good_run_has_no_fault() -> None:
    scene = good_run()
    assert scene.over
    assert complaints(scene, CAST) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (changed(1, status="IN_CALL"), "bot 1 Ada is still IN_CALL"),
        (changed(1, status="FAILED", failureCode="internal"), "instead of DONE"),
        (changed(3, status="DONE", failureCode=None), "instead of FAILED container_exited"),
        (changed(7, failureCode="container_exited"), "instead of FAILED meeting_failed"),
        (changed(12, assignedAt=second(50)), "was not served first"),
        (stuck, "pool-google-meet-001 is still releasing"),
        (lost, "12 bots were sent and 11 are known"),
        (slow, "not quicker"),
        (abandoned, "ran no bot after its crash"),
    ],
)
def test_a_fault_is_found(fault: Fault, said: str) -> None:
    scene = good_run()
    fault(scene)
    found = complaints(scene, CAST)
    assert any(said in each for each in found), found


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        (Counted(pulls=1, most_requests=200, containers=0), None),
        (Counted(pulls=2, most_requests=30, containers=0), "pulled 2 times instead of once"),
        (Counted(pulls=1, most_requests=201, containers=0), "201 requests in one of its minutes"),
    ],
)
def test_the_platforms_own_count_decides_too(counted: Counted, said: str | None) -> None:
    found = complaints(replace(good_run(), counted=counted), CAST)
    assert len(found) == (said is not None)
    assert all(said is not None and said in each for each in found), found
