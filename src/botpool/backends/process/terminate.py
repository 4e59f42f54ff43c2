"""Ends a run: SIGTERM to the program, SIGKILL to all of it, and never for a foreign process.

The recorded pids may be out of date, so before each signal the record is read again and the process
must hold the lock. A daemon of the program whose launcher was killed from outside keeps the lock
and is reported as running; an operator must end it. A run of a later assignment is left alone, so
a late stop cannot hit the next bot.
"""

import asyncio
import os
import signal
from contextlib import suppress

from botpool.backends.process import run_lock
from botpool.backends.process.container_directory import ContainerDirectory, RunRecord
from botpool.backends.protocol import StopMode
from botpool.domain.ids import AssignmentId

POLL_S = 0.01


async def terminate_run(
    directory: ContainerDirectory,
    assignment_id: AssignmentId,
    *,
    mode: StopMode,
    grace_s: float,
    timeout_s: float,
) -> None:
    """End the run of this assignment or an earlier one, or only ask it to end.

    Raise the fence first. May return before the run has ended: test the lock.
    """
    kill_wait_s = min(1.0, timeout_s / 10)
    run = await _identify_run(directory, within_s=kill_wait_s)
    if run is not None and run.assignment_id > assignment_id:
        return
    ask = (_terminate_program, kill_wait_s)
    kill = ((_kill_program, kill_wait_s), (_kill_group, kill_wait_s))
    signals = {
        StopMode.ASK: (ask,),
        StopMode.KILL: kill,
        StopMode.ASK_THEN_KILL: ((_terminate_program, min(grace_s, timeout_s / 2)), *kill),
    }
    for send_signal, wait_s in signals[mode]:
        current = directory.last_run()
        if not directory.is_running() or (current and not current.is_same_run(run)):
            return
        if current is not None:
            send_signal(directory, current)
        await wait_until_ended(directory, current, within_s=wait_s)


async def wait_until_ended(
    directory: ContainerDirectory, run: RunRecord | None, *, within_s: float
) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            if run is not None and run_lock.is_holder(run.pid, directory.lock):
                await wait_for_exit(run.pid)
            await poll_until_ended(directory, every_s=POLL_S)


async def poll_until_ended(directory: ContainerDirectory, *, every_s: float) -> None:
    """Wait for processes that outlive the launcher, or on kernels without pidfd."""
    while directory.is_running():  # noqa: ASYNC110 - no event tells that a lock became free
        await asyncio.sleep(every_s)


async def wait_for_exit(pid: int) -> None:
    """Wait for the exit without polling; return at once on kernels without pidfd."""
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


async def _identify_run(directory: ContainerDirectory, *, within_s: float) -> RunRecord | None:
    """Return the record of the process that holds the lock.

    A launcher holds the lock briefly before it writes its record: it either finds the fence and
    lets go, or writes the record.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while directory.is_running():
                run = directory.last_run()
                if run is not None and _live_pids(directory, run):
                    return run
                await asyncio.sleep(POLL_S)
    return directory.last_run()


def _live_pids(directory: ContainerDirectory, run: RunRecord) -> list[int]:
    """Return the recorded pids that still belong to the run."""
    recorded = [pid for pid in (run.pid, run.program_pid) if pid is not None]
    return [pid for pid in recorded if run_lock.is_holder(pid, directory.lock)]


def _terminate_program(directory: ContainerDirectory, run: RunRecord) -> None:
    """Signal the program alone, as Docker does, or its launcher if there is no program yet.

    A recorder among the program's children must not end before the program has heard of it.
    """
    if run.program_pid in _live_pids(directory, run):
        _signal_process(run.program_pid, signal.SIGTERM)
    else:
        _signal_group(directory, run, signal.SIGTERM)


def _kill_program(directory: ContainerDirectory, run: RunRecord) -> None:
    """Kill only the program: its launcher ends the rest of the run and records the end."""
    if run.program_pid in _live_pids(directory, run):
        _signal_process(run.program_pid, signal.SIGKILL)


def _kill_group(directory: ContainerDirectory, run: RunRecord) -> None:
    _signal_group(directory, run, signal.SIGKILL)


def _signal_group(directory: ContainerDirectory, run: RunRecord, number: signal.Signals) -> None:
    """Signal the group while its leader runs: afterwards the system may reuse the group id."""
    live = _live_pids(directory, run)
    if run.pid in live:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, number)
    elif run.program_pid in live:
        _signal_process(run.program_pid, number)


def _signal_process(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
