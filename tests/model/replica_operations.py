"""Operations that the state machine runs on a replica: loop work, slot commands and pauses."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from botpool.domain.errors import IdempotencyConflict, NoFreeSlot, NotFound, PoolDrained
from botpool.engine.replica import Replica
from tests.model.crashing_replica import ModelReplica

T = TypeVar("T")


def loop_work(work: str) -> Callable[[Replica], Awaitable[Any]] | None:
    """Return one pass of the named background loop; None stands for the steps that are due."""
    return {
        "step": None,
        "observe": lambda r: r.observer.observe("process"),
        "poll": lambda r: r.queue_poller.poll(),
        "recover": lambda r: r.recovery.recover(),
        "clean": lambda r: r.cleanup.clean(all_strays=False),
        "clean by force": lambda r: r.cleanup.clean(all_strays=True),
        "keep standbys": lambda r: r.standby_keeper.keep(),
        "describe": lambda r: r.describer.describe_due(),
    }[work]


async def run_slot_command(replica: Replica, command: str, slot_id: Any) -> object:
    commands, reason = replica.slot_commands, f"{command} by test"
    match command:
        case "cordon" | "uncordon":
            await replica.pools.cordon(slot_id, cordoned=command == "cordon", reason=reason)
        case "release":
            await commands.release(slot_id, reason=reason)
        case "recover":
            await commands.recover(slot_id, reason=reason)
        case "delete":
            return await replica.pools.remove(slot_id, reason=reason)
        case _:
            await commands.delete(slot_id, reason=reason)
    return None


async def result_or_error(work: Awaitable[T]) -> T | Exception:
    try:
        return await work
    except (PoolDrained, NoFreeSlot, IdempotencyConflict, NotFound) as error:
        return error


async def run_until_held(
    model_replica: ModelReplica, work: str, held: asyncio.Event
) -> list[asyncio.Task[Any]]:
    """Run the work until the backend holds one of its calls.

    Return the tasks of the work, or an empty list if the work never makes the held call.
    """
    replica = model_replica.replica
    tasks: list[asyncio.Task[Any]]
    if work == "step":
        await replica.reconciler.run_due_steps()
        tasks = list(replica.reconciler.under_way)
    elif work == "observe":
        tasks = [asyncio.create_task(replica.observer.observe("process"))]
    else:
        tasks = [asyncio.create_task(replica.recovery.recover())]
    waits = asyncio.create_task(held.wait())
    while not held.is_set() and not all(task.done() for task in tasks):
        open_tasks = [task for task in tasks if not task.done()]
        await asyncio.wait([waits, *open_tasks], return_when=asyncio.FIRST_COMPLETED)
    waits.cancel()
    # The test must not read the tables in the middle of a write, so all other tasks finish first.
    while len(pending := [task for task in tasks if not task.done()]) > 1:
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    return tasks if held.is_set() else []


async def wait_for_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks)
