"""Reads the output of a container, which Coolify keeps while the container exists."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from botpool.backends.coolify import fence
from botpool.backends.coolify.api import Api
from botpool.domain.errors import BudgetExhausted, ContainerGone
from botpool.domain.ids import AssignmentId, ContainerId

_MAX_LINES = 10_000


async def stream(
    api: Callable[[], Api],
    container_id: ContainerId,
    assignment_id: AssignmentId,
    *,
    tail: int | None,
    follow: bool,
    interval_s: float,
) -> AsyncIterator[bytes]:
    """Yield the last lines, then new lines until the container ends.

    Following a log has the lowest priority and waits while the request budget is exhausted. `api`
    returns a new Api for each poll, with its own deadline.
    """
    previous: Sequence[str] = ()
    is_first = is_own_run = True
    while True:
        try:
            if is_first or not is_own_run:
                is_own_run = await _fetch_whether_assigned(api(), container_id, assignment_id)
            lines = await _fetch_lines(api(), container_id) if is_own_run else None
        except BudgetExhausted as exhausted:
            if is_first:
                raise
            # The slot may be handed over meanwhile: check its assignment again.
            is_own_run = False
            await asyncio.sleep(exhausted.retry_after_s)
            continue
        if lines is None:
            return
        fresh = _last_lines(lines, tail) if is_first else lines[_count_overlap(previous, lines) :]
        if fresh:
            yield "".join(f"{line}\n" for line in fresh).encode()
        if not follow:
            return
        previous, is_first = lines, False
        await asyncio.sleep(interval_s)


async def _fetch_whether_assigned(
    api: Api, container_id: ContainerId, assignment_id: AssignmentId
) -> bool:
    await api.reserve(1)
    try:
        return fence.parse_fence(await api.variables(container_id)).assignment == assignment_id
    except ContainerGone:
        return False


async def _fetch_lines(api: Api, container_id: ContainerId) -> Sequence[str] | None:
    """Return None if the container is gone."""
    await api.reserve(1)
    try:
        text = await api.logs(container_id, _MAX_LINES)
    except ContainerGone:
        return None
    return None if text is None else text.splitlines()


def _last_lines(lines: Sequence[str], tail: int | None) -> Sequence[str]:
    return lines if tail is None else lines[max(len(lines) - tail, 0) :]


def _count_overlap(previous: Sequence[str], lines: Sequence[str]) -> int:
    """Return how many of the lines were in the previous poll: its longest matching suffix."""
    for length in range(min(len(previous), len(lines)), 0, -1):
        if previous[len(previous) - length :] == lines[:length]:
            return length
    return 0
