"""Tells whether a container runs: as long as a process holds an exclusive flock on `run.lock`.

The kernel drops the lock with the last process that holds it, so the lock is right even after a
crash. A pid in a file is not, because the system reuses pids. On Linux, a recorded pid is trusted
only if this process holds the lock.
"""

# Every stop calls these functions several times, and pathlib would dominate their cost:
# ruff: noqa: PTH110, PTH116, PTH123

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PROC = "/proc"


def is_held(lock: str) -> bool:
    """Test with a shared lock, which does not disturb other tests; a launcher retries."""
    fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def held(lock: str) -> Iterator[bool]:
    """Hold the lock for a moment, as a launcher would, if no other process holds it."""
    fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield _try_lock(fd)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_holder(pid: int, lock: str) -> bool:
    """Whether the process holds the lock. Without `/proc`, assume that it does."""
    if not os.path.exists(f"{PROC}/self/fdinfo"):
        return True
    try:
        lock_file = os.stat(lock)
        return any(_locks_exclusively(pid, fd) for fd in _descriptors(pid, lock_file))
    except OSError:
        return False


def _descriptors(pid: int, file: os.stat_result) -> Iterator[str]:
    with os.scandir(f"{PROC}/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if os.path.samestat(entry.stat(), file):
                    yield entry.name


def _locks_exclusively(pid: int, fd: str) -> bool:
    """Only a run locks exclusively; a process that tests the lock uses a shared lock."""
    with open(f"{PROC}/{pid}/fdinfo/{fd}", "rb") as info:
        return any(
            line.startswith(b"lock:") and b"FLOCK" in line and b"WRITE" in line for line in info
        )
