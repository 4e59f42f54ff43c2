"""Runs one assignment's program in one container directory, and stays as its supervisor.

The control plane may be killed at any moment, so what must not be lost or done twice is decided
here, in a process and session of its own. It is forked by an interpreter that is up already, since
one of its own would take longer than the rest of a start: `python -I -S launcher.py`, which needs
the standard library only (see `nursery.py`). The order comes as JSON on standard input; one line of
answer goes to standard output, which is then closed.

The order of the steps is the safety: the launcher takes the lock BEFORE it reads the fence, and
`stop` writes the fence BEFORE it tests the lock. One of the two always sees the other.
"""

# pathlib would be more memory for every bot:
# ruff: noqa: PTH102, PTH104, PTH108, PTH110, PTH112, PTH123, PTH208

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

LOCK = "run.lock"
FENCE = "fence"
RECORDS = ("run.json", "run.next.json")
WORK = "work"
STARTING, RUNNING, ENDED = "starting", "running", "ended"

KEPT_OUTPUTS = 5
LOCK_PATIENCE_S = 1.0
"""A look holds the lock for microseconds to test it: only a longer one means that somebody runs."""


class Order:
    """What the control plane wants to be run."""

    def __init__(self, text: bytes) -> None:
        fields = json.loads(text)
        self.directory: str = fields["directory"]
        self.assignment: int = fields["assignment"]
        self.command: list[str] = fields["command"]
        self.environment: dict[str, str] = fields["environment"]
        self.first_start_s: float = fields["first_start_s"]
        self.start_s: float = fields["start_s"]
        self.output_bytes: int = fields["output_bytes"]


class Refused(Exception):
    """This assignment does not run here; the message is the answer to the control plane."""


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def output_name(assignment: int) -> str:
    return f"output.{assignment}.log"


def outputs(directory: str) -> Iterator[tuple[int, str]]:
    """The kept output files as (assignment, path)."""
    for name in os.listdir(directory):
        parts = name.split(".")
        if parts[0] == "output" and len(parts) > 2 and parts[1].isdigit():
            yield int(parts[1]), f"{directory}/{name}"


class Record:
    """`run.json`: which assignment ran here last, in which processes, and how it ended.

    The next one is whole beside it before it goes, so that one is always there. A rename onto the
    old one waits on ext4 until the new one is on the disk, in every start and every stop.
    """

    def __init__(self, directory: str, assignment: int) -> None:
        self._path, self._next = (f"{directory}/{name}" for name in RECORDS)
        self._fields: dict[str, object] = {"assignment": assignment, "pid": os.getpid()}

    def write(self, state: str, **fields: object) -> None:
        self._fields |= {"state": state, **fields}
        with suppress(FileNotFoundError):
            if not os.path.exists(self._path):
                os.rename(self._next, self._path)  # whoever wrote it was killed just then
        with open(self._next, "w", encoding="utf-8") as file:
            file.write(json.dumps(self._fields))
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        os.rename(self._next, self._path)


def read_record(directory: str) -> str | None:
    """The record, also between two: the old one gone, and the next without its name yet."""
    return next(filter(None, (read_text(f"{directory}/{name}") for name in RECORDS * 3)), None)


def last_assignment(directory: str) -> int:
    """The newest assignment that was let run here; 0 when none was."""
    with suppress(ValueError, KeyError, TypeError):
        return int(json.loads(read_record(directory) or "{}")["assignment"])
    return 0


def read_fence(directory: str) -> int:
    """The fenced number, read under the lock of its writers: they write in place."""
    with open(f"{directory}/{FENCE}", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return int(file.read())


def claim(directory: str, assignment: int) -> tuple[int, Record]:
    """Lock the container for this assignment and record it, or refuse and let the lock go.

    The run lasts as long as the lock is held.
    """
    lock = os.open(f"{directory}/{LOCK}", os.O_RDWR | os.O_CLOEXEC)
    try:
        take(lock, directory, assignment)
        fence = read_fence(directory)
        if assignment <= fence:
            raise Refused(f"superseded assignment {assignment} was stopped (fence {fence})")
        refuse_if_known(directory, assignment)
        record = Record(directory, assignment)
        record.write(STARTING)
    except BaseException:
        os.close(lock)  # before the answer: a look that follows it must not see this try
        raise
    return lock, record


def take(lock: int, directory: str, assignment: int) -> None:
    give_up_at = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            refuse_if_known(directory, assignment)
            if time.monotonic() > give_up_at:
                raise Refused("superseded another assignment's program runs here") from None
            time.sleep(0.005)


def refuse_if_known(directory: str, assignment: int) -> None:
    last = last_assignment(directory)
    if assignment == last:
        raise Refused("already")
    if assignment < last:
        raise Refused(f"superseded assignment {last} came after {assignment}")


def answer(word: str) -> None:
    """Tell the control plane, if it still lives, and let go of everything that it gave us."""
    with suppress(OSError):
        os.write(1, word.encode())
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.close(nowhere)


def make_fresh_work(directory: str) -> str:
    """An empty working directory: nothing of one meeting leaks into the next."""
    work = f"{directory}/{WORK}"
    if os.path.lexists(work):
        shutil.rmtree(work)
    os.mkdir(work, 0o700)
    return work


def prune_outputs(directory: str) -> None:
    """Make room for the next output: keep the newest few assignments'."""
    kept = sorted({assignment for assignment, _ in outputs(directory)})[1 - KEPT_OUTPUTS :]
    for assignment, path in outputs(directory):
        if assignment not in kept:
            os.unlink(path)


class Output:
    """The newest output, in two files of half the bound each, so that the bound is strict."""

    def __init__(self, path: str, bound: int) -> None:
        self._path = path
        self.half = max(1, bound // 2)
        self._size = 0
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """A full disk loses output; it must not stop the program by a full pipe."""
        with suppress(OSError):
            if self._size + len(data) > self.half:
                os.rename(self._path, f"{self._path}.1")
                os.close(self._file)
                self._file, self._size = self._open(), 0
            self._size += os.write(self._file, data)


def fork_program(order: Order, work: str, lock: int, record: Record) -> tuple[int, int, str]:
    """Fork and exec the program: its pid, the pipe of its output, and why exec failed, if it did.

    The program inherits the lock, so that the run is seen even if this supervisor is killed.
    """
    out_read, out_write = os.pipe()
    failure_read, failure_write = os.pipe()
    # A SIGTERM must meet either the supervisor before the fork, or the program after it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid == 0:
        try:
            record.write(RUNNING, program=os.getpid())
            os.dup2(out_write, 1)
            os.dup2(out_write, 2)
            os.set_inheritable(lock, True)
            os.chdir(work)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            os.execvpe(order.command[0], order.command, order.environment)  # noqa: S606
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            os.write(failure_write, f"cannot run {order.command[0]}: {reason}".encode())
        finally:
            os._exit(127)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os.close(out_write)
    os.close(failure_write)
    failure = os.read(failure_read, 4096).decode(errors="replace")
    os.close(failure_read)
    return pid, out_read, failure


def adopt_orphans() -> None:
    """Become the parent of what the program daemonises, so that nothing outlives the program."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def children() -> list[int]:
    text = read_text(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in (text or "").split()]


def end_orphans() -> None:
    """As in a container: when the first process ends, all end.

    BotEnding one hands its own children to us, hence the rounds.
    """
    for _ in range(1_000):
        found = children()
        if not found:
            return
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def reap(program: int) -> int | None:
    """Reap what has ended; the wait status of the program when it is among them."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == program:
                return status
            if pid == 0:
                return None
    return None


def pump(program: int, pipe: int, output: Output, wake: int) -> int:
    """Copy the output until the program ends; its wait status."""
    chunk = min(65_536, output.half)
    waiting = [pipe, wake]
    while True:
        ready, _, _ = select.select(waiting, [], [])
        if pipe in ready:
            if data := os.read(pipe, chunk):
                output.write(data)
            else:
                waiting.remove(pipe)
        if wake in ready:
            os.read(wake, 4096)
            status = reap(program)
            if status is not None:
                break
    end_orphans()
    drain(pipe, output, chunk)
    return status


def drain(pipe: int, output: Output, chunk: int) -> None:
    """What was written before the end; bounded, in case that somebody still has the pipe."""
    os.set_blocking(pipe, False)
    left = 1_048_576
    with suppress(BlockingIOError):
        while left > 0 and (data := os.read(pipe, chunk)):
            output.write(data)
            left -= len(data)


def ending(status: int) -> tuple[int, str]:
    """Exit code as shells and Docker count it, and words for people."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return 128 - code, f"killed by {name}"


def wake_on_child_end() -> int:
    """A descriptor that becomes readable when a child ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def supervise(order: Order, lock: int, record: Record) -> None:
    """Wait the start delay, then run the program to its end and write down how it ended."""
    directory = order.directory
    # The working directory is made when a program runs: without one, none ever ran here.
    ran_before = os.path.isdir(f"{directory}/{WORK}")
    time.sleep(order.start_s if ran_before else order.first_start_s)
    try:
        work = make_fresh_work(directory)
        prune_outputs(directory)
        output = Output(f"{directory}/{output_name(order.assignment)}", order.output_bytes)
        wake = wake_on_child_end()
        program, pipe, failure = fork_program(order, work, lock, record)
    except OSError as error:
        record.write(ENDED, exit_code=None, detail=f"could not be prepared: {error}")
        return
    adopt_orphans()
    exit_code, detail = ending(pump(program, pipe, output, wake))
    record.write(ENDED, exit_code=exit_code, detail=failure or detail)


def run() -> None:
    """Be the launcher of the order on standard input."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        with open(0, "rb", closefd=False) as told:
            order = Order(told.read())
        os.chdir(order.directory)  # where whoever lists processes sees whose it is
        lock, record = claim(order.directory, order.assignment)
    except Refused as refusal:
        return answer(str(refusal))
    except FileNotFoundError:
        return answer("gone")
    except (OSError, ValueError) as error:
        return answer(f"failed {error}")
    answer("started")
    try:
        supervise(order, lock, record)
    finally:
        # Where orphans cannot be adopted, the group (and we with it) is what can be ended.
        with suppress(ProcessLookupError):
            os.killpg(os.getpid(), signal.SIGKILL)


def serve() -> None:
    """Fork a launcher for each order, until the control plane closes its end or is gone."""
    orders = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a launcher
    while True:
        word, given, _, _ = socket.recv_fds(orders, 1, 2)
        if not word:
            return
        is_launcher = os.fork() == 0
        if is_launcher:
            os.setsid()
            for standard, descriptor in zip((0, 1, 2), (*given, given[-1]), strict=True):
                os.dup2(descriptor, standard)
        for descriptor in given:
            os.close(descriptor)
        if is_launcher:
            run()
            return


if __name__ == "__main__":
    serve()
