"""Who runs? A run lasts exactly as long as somebody holds an exclusive flock on its `run.lock`.

The kernel drops the lock with the last process that has it, however that process dies, so it never
lies after a crash. A process id in a file does: ids are used again. Where the kernel tells (Linux),
an id is believed only if that very process holds the lock.
"""

# Asked several times in every stop, and pathlib would be half of its processor time:
# ruff: noqa: PTH110, PTH116, PTH123

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress

PROC = "/proc"


def is_held(lock: str) -> bool:
    """Test without excluding other testers; a launcher that collides with the test tries again."""
    fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def is_holder(pid: int, lock: str) -> bool:
    """Does that process hold the lock? Believed where there is no `/proc` to ask."""
    if not os.path.exists(f"{PROC}/self/fdinfo"):
        return True
    try:
        wanted = os.stat(lock)
        return any(_locks_exclusively(pid, fd) for fd in _descriptors(pid, wanted))
    except OSError:
        return False


def _descriptors(pid: int, wanted: os.stat_result) -> Iterator[str]:
    with os.scandir(f"{PROC}/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if os.path.samestat(entry.stat(), wanted):
                    yield entry.name


def _locks_exclusively(pid: int, fd: str) -> bool:
    """Only a run locks exclusively: a tester that has the file open right now is left alone."""
    with open(f"{PROC}/{pid}/fdinfo/{fd}", "rb") as info:
        return any(
            line.startswith(b"lock:") and b"FLOCK" in line and b"WRITE" in line for line in info
        )
