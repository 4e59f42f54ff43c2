"""How replicas are made to do things: what their loops would do, levers, and pauses."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from botpool.domain.errors import IdempotencyConflict, NoFreeSlot, NotFound, PoolDrained
from botpool.engine.replica import Replica
from tests.model.world import Living

T = TypeVar("T")


def working(work: str) -> Callable[[Replica], Awaitable[Any]] | None:
    """What loops do; None: the steps that are due."""
    return {
        "step": None,
        "observe": lambda r: r.observer.observe("process"),
        "poll": lambda r: r.queue_poller.poll(),
        "recover": lambda r: r.recovery.recover(),
        "clean": lambda r: r.cleanup.clean(all_strays=False),
        "clean by force": lambda r: r.cleanup.clean(all_strays=True),
        "describe": lambda r: r.describer.describe_due(),
    }[work]


async def pull(replica: Replica, lever: str, slot_id: Any) -> object:
    levers, reason = replica.slot_commands, f"{lever} by test"
    match lever:
        case "cordon" | "uncordon":
            await replica.pools.cordon(slot_id, cordoned=lever == "cordon", reason=reason)
        case "release":
            await levers.release(slot_id, reason=reason)
        case "recover":
            await levers.recover(slot_id, reason=reason)
        case "delete":
            return await replica.pools.remove(slot_id, reason=reason)
        case _:
            await levers.delete(slot_id, reason=reason)
    return None


async def or_error(work: Awaitable[T]) -> T | Exception:
    try:
        return await work
    except (PoolDrained, NoFreeSlot, IdempotencyConflict, NotFound) as error:
        return error


async def until_held(living: Living, work: str, held: asyncio.Event) -> list[asyncio.Task[Any]]:
    """Do the work until a call of it is held; what then waits. Nothing: it met no such call."""
    replica = living.replica
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
    # One is held; the others come to their end, so that nobody looks on in the middle of a write.
    while len(pending := [task for task in tasks if not task.done()]) > 1:
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    return tasks if held.is_set() else []


async def all_of(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks)
