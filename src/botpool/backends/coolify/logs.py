"""Output of a container. Coolify keeps it while the container exists, and cannot stream it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from botpool.backends.coolify import fence
from botpool.backends.coolify.api import Api
from botpool.domain.errors import BudgetExhausted, ContainerGone
from botpool.domain.ids import AssignmentId, ContainerId

_MOST_LINES = 10_000


async def read(
    api: Callable[[], Api],
    container_id: ContainerId,
    assignment_id: AssignmentId,
    *,
    tail: int | None,
    follow: bool,
    interval_s: float,
) -> AsyncIterator[bytes]:
    """The last lines, then the new ones until the container ends.

    Following costs a request each time and is worth less than any other: when the budget is
    short it waits. `api` makes the calls of one look, with an end of their own.
    """
    shown: Sequence[str] = ()
    is_first = is_surely_its_own = True
    while True:
        try:
            if is_first or not is_surely_its_own:
                is_surely_its_own = await _serves(api(), container_id, assignment_id)
            lines = await _lines(api(), container_id) if is_surely_its_own else None
        except BudgetExhausted as spent:
            if is_first:
                raise
            # Long enough for a hand-over: whose container it is must be asked again.
            is_surely_its_own = False
            await asyncio.sleep(spent.retry_after_s)
            continue
        if lines is None:
            return
        fresh = _last(lines, tail) if is_first else lines[_overlap(shown, lines) :]
        if fresh:
            yield "".join(f"{line}\n" for line in fresh).encode()
        if not follow:
            return
        shown, is_first = lines, False
        await asyncio.sleep(interval_s)


async def _serves(api: Api, container_id: ContainerId, assignment_id: AssignmentId) -> bool:
    await api.pay(1)
    try:
        return fence.read(await api.variables(container_id)).assignment == assignment_id
    except ContainerGone:
        return False


async def _lines(api: Api, container_id: ContainerId) -> Sequence[str] | None:
    """None when the container is no more."""
    await api.pay(1)
    try:
        text = await api.logs(container_id, _MOST_LINES)
    except ContainerGone:
        return None
    return None if text is None else text.splitlines()


def _last(lines: Sequence[str], tail: int | None) -> Sequence[str]:
    return lines if tail is None else lines[max(len(lines) - tail, 0) :]


def _overlap(shown: Sequence[str], lines: Sequence[str]) -> int:
    """How many of the lines were shown: the longest end of those that these begin with."""
    for length in range(min(len(shown), len(lines)), 0, -1):
        if shown[len(shown) - length :] == lines[:length]:
            return length
    return 0
