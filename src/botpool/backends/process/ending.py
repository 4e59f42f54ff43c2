"""Making a run end, and waiting until it has: ask, then kill, and never hit anybody else.

Process ids come from a file that may be out of date, so before every blow the record is read again
and the process is asked for the lock. Nobody else is ever looked for: a daemon of the program whose
launcher was killed by an outsider stays, is shown as running, and is for an operator to end. A run
that belongs to a later assignment is left alone: a late stop must not hit the next tenant.
"""

import asyncio
import os
import signal
from contextlib import suppress

from botpool.backends.process import locks
from botpool.backends.process.directory import Directory, Run
from botpool.domain.ids import AssignmentId

POLL_S = 0.01


async def end_run(
    directory: Directory, assignment_id: AssignmentId | None, *, grace_s: float, timeout_s: float
) -> None:
    """End the run of that assignment or an earlier one; without one, whatever runs.

    Raise the fence first. It may return before the run has ended: test the lock.
    """
    blow_s = min(1.0, timeout_s / 10)
    run = await _identify(directory, within_s=blow_s)
    if run is not None and assignment_id is not None and run.assignment_id > assignment_id:
        return
    if run is not None and assignment_id is None:
        directory.raise_fence(run.assignment_id)
    for blow, patience_s in (
        (_terminate, min(grace_s, timeout_s / 2)),
        (_kill_program, blow_s),
        (_kill_all, blow_s),
    ):
        current = directory.run()
        if not directory.is_held() or (current and not current.is_same(run)):
            return
        if current is not None:
            blow(directory, current)
        await wait_until_free(directory, current, within_s=patience_s)


async def wait_until_free(directory: Directory, run: Run | None, *, within_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            if run is not None and locks.is_holder(run.pid, directory.lock):
                await process_ended(run.pid)
            await poll_until_free(directory, every_s=POLL_S)


async def poll_until_free(directory: Directory, *, every_s: float) -> None:
    """For what is left after the launcher, and where the kernel has no events for processes."""
    while directory.is_held():  # noqa: ASYNC110 - no event tells that a lock became free
        await asyncio.sleep(every_s)


async def process_ended(pid: int) -> None:
    """Wait without polling where the kernel can tell; else return at once."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def _identify(directory: Directory, *, within_s: float) -> Run | None:
    """The record of whoever holds the lock.

    A launcher holds it for a moment before it writes its record. If it was fenced it lets go; if
    not, the record comes.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while directory.is_held():
                run = directory.run()
                if run is not None and _living(directory, run):
                    return run
                await asyncio.sleep(POLL_S)
    return directory.run()


def _living(directory: Directory, run: Run) -> list[int]:
    """Those of the recorded processes that are still what the record says."""
    recorded = [pid for pid in (run.pid, run.program_pid) if pid is not None]
    return [pid for pid in recorded if locks.is_holder(pid, directory.lock)]


def _terminate(directory: Directory, run: Run) -> None:
    _signal_run(directory, run, signal.SIGTERM)


def _kill_program(directory: Directory, run: Run) -> None:
    """Only the program: its launcher ends what is left of the run, and writes down the end."""
    if run.program_pid in _living(directory, run):
        _signal_process(run.program_pid, signal.SIGKILL)


def _kill_all(directory: Directory, run: Run) -> None:
    _signal_run(directory, run, signal.SIGKILL)


def _signal_run(directory: Directory, run: Run, number: signal.Signals) -> None:
    """The whole group while its leader lives: only then is its number surely not another's."""
    living = _living(directory, run)
    if run.pid in living:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, number)
    elif run.program_pid in living:
        _signal_process(run.program_pid, number)


def _signal_process(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
