"""Runs the program of one assignment in a container directory and supervises it.

The control plane may be killed at any moment, so each launcher is a separate process in its own
session. A running interpreter forks launchers, because starting an interpreter takes longer than
the rest of a start: `python -I -S launcher.py`, which imports only the standard library (see
`fork_server.py`). The job comes as JSON on standard input; one line of answer goes to standard
output, which is then closed.

The launcher takes the lock BEFORE it reads the fence, and `stop` writes the fence BEFORE it tests
the lock. So at least one of the two always finds the other.
"""

# pathlib would take more memory for every bot:
# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH110, PTH112, PTH123, PTH208

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
LOCK_TIMEOUT_S = 1.0
"""An observation holds the lock for microseconds; a lock held for longer means a run."""


class Job:
    """The program that the control plane wants to run."""

    def __init__(self, text: bytes) -> None:
        fields = json.loads(text)
        self.directory: str = fields["directory"]
        self.assignment: int = fields["assignment"]
        self.command: list[str] = fields["command"]
        self.environment: dict[str, str] = fields["environment"]
        self.first_start_s: float = fields["first_start_s"]
        self.start_s: float = fields["start_s"]
        self.output_bytes: int = fields["output_bytes"]
        self.account: tuple[int, int] | None = fields["account"] and tuple(fields["account"])
        """The user and group id of the program; None is the launcher's own."""


class LaunchRefused(Exception):
    """The assignment must not run here; the message is the answer to the control plane."""


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def output_name(assignment: int) -> str:
    return f"output.{assignment}.log"


def outputs(directory: str) -> Iterator[tuple[int, str]]:
    """Yield the kept output files as (assignment, path)."""
    for name in os.listdir(directory):
        parts = name.split(".")
        if parts[0] == "output" and len(parts) > 2 and parts[1].isdigit():
            yield int(parts[1]), f"{directory}/{name}"


class RecordFile:
    """`run.json`: the assignment that ran last, its processes and its end.

    The next record is complete before the old one is removed, so one always exists. A rename onto
    the old file would wait on ext4 until the new one is on the disk.
    """

    def __init__(self, directory: str, assignment: int) -> None:
        self._path, self._next = (f"{directory}/{name}" for name in RECORDS)
        self._fields: dict[str, object] = {"assignment": assignment, "pid": os.getpid()}

    def write(self, state: str, **fields: object) -> None:
        self._fields |= {"state": state, **fields}
        with suppress(FileNotFoundError):
            if not os.path.exists(self._path):
                os.rename(self._next, self._path)  # its writer was killed between the two steps
        with open(self._next, "w", encoding="utf-8") as file:
            file.write(json.dumps(self._fields))
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        os.rename(self._next, self._path)


def read_record(directory: str) -> str | None:
    """Read the record, even while it is being replaced."""
    return next(filter(None, (read_text(f"{directory}/{name}") for name in RECORDS * 3)), None)


def last_assignment(directory: str) -> int:
    """Return the newest assignment that ran here, or 0."""
    with suppress(ValueError, KeyError, TypeError):
        return int(json.loads(read_record(directory) or "{}")["assignment"])
    return 0


def read_fence(directory: str) -> int:
    """Read the fence under a lock, because its writers write in place."""
    with open(f"{directory}/{FENCE}", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return int(file.read())


def claim(directory: str, assignment: int) -> tuple[int, RecordFile]:
    """Lock the container for this assignment and record it, or refuse and release the lock.

    The run lasts as long as the lock is held.
    """
    lock = os.open(f"{directory}/{LOCK}", os.O_RDWR | os.O_CLOEXEC)
    try:
        acquire_lock(lock, directory, assignment)
        fence = read_fence(directory)
        if assignment <= fence:
            raise LaunchRefused(f"superseded assignment {assignment} was stopped (fence {fence})")
        refuse_if_superseded(directory, assignment)
        record = RecordFile(directory, assignment)
        record.write(STARTING)
    except BaseException:
        os.close(lock)  # before the answer, so that no observation after it finds this attempt
        raise
    return lock, record


def acquire_lock(lock: int, directory: str, assignment: int) -> None:
    give_up_at = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            refuse_if_superseded(directory, assignment)
            if time.monotonic() > give_up_at:
                raise LaunchRefused("superseded another program runs here") from None
            time.sleep(0.005)


def refuse_if_superseded(directory: str, assignment: int) -> None:
    last = last_assignment(directory)
    if assignment == last:
        raise LaunchRefused("already")
    if assignment < last:
        raise LaunchRefused(f"superseded assignment {last} came after {assignment}")


def send_answer(text: str) -> None:
    """Answer the control plane, if it still runs, and close its descriptors."""
    with suppress(OSError):
        os.write(1, text.encode())
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def create_work_directory(directory: str, account: tuple[int, int] | None) -> str:
    """Create an empty working directory, so that no data of one meeting reaches the next.

    Only the group of the run can pass through the container's directory, which it does not own.
    """
    work = f"{directory}/{WORK}"
    if os.path.lexists(work):
        shutil.rmtree(work)
    os.mkdir(work, 0o700)
    if account is not None:
        os.chown(work, *account)
        os.chown(directory, -1, account[1])
        os.chmod(directory, 0o710)  # noqa: S103 - for the group of this run only
    return work


def drop_privileges(account: tuple[int, int] | None) -> None:
    """Become the user of the program, for good: no setuid program can give privileges back."""
    if account is not None:
        uid, gid = account
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


def prune_outputs(directory: str) -> None:
    """Keep the output of the newest few assignments, including the next one."""
    kept = sorted({assignment for assignment, _ in outputs(directory)})[1 - KEPT_OUTPUTS :]
    for assignment, path in outputs(directory):
        if assignment not in kept:
            os.unlink(path)


class OutputFiles:
    """Keeps the newest output in two files, each with half of the maximum size."""

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path = path
        self.half = max(1, max_bytes // 2)
        self._size = 0
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """Ignore a full disk: the program must not block on a full pipe."""
        with suppress(OSError):
            if self._size + len(data) > self.half:
                os.rename(self._path, f"{self._path}.1")
                os.close(self._file)
                self._file, self._size = self._open(), 0
            self._size += os.write(self._file, data)


def fork_program(job: Job, work: str, lock: int, record: RecordFile) -> tuple[int, int, str]:
    """Start the program. Return its pid, the pipe of its output and the error of a failed exec.

    The program inherits the lock, so the container counts as running if this supervisor is killed.
    """
    out_read, out_write = os.pipe()
    failure_read, failure_write = os.pipe()
    # SIGTERM must reach either the supervisor before the fork or the program after it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid == 0:
        try:
            record.write(RUNNING, program=os.getpid())
            os.dup2(out_write, 1)
            os.dup2(out_write, 2)
            os.set_inheritable(lock, True)
            os.chdir(work)
            drop_privileges(job.account)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            os.execvpe(job.command[0], job.command, job.environment)  # noqa: S606
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            os.write(failure_write, f"cannot run {job.command[0]}: {reason}".encode())
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
    """Become the parent of daemons of the program, so that they can be ended with it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def children() -> list[int]:
    text = read_text(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in (text or "").split()]


def kill_orphans() -> None:
    """Kill all remaining processes, as a container does when its first process ends.

    Killing a process makes its children ours, hence the loop.
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
    """Reap ended children. Return the wait status of the program if it is among them."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == program:
                return status
            if pid == 0:
                return None
    return None


def copy_output(program: int, pipe: int, output: OutputFiles, wake: int) -> int:
    """Copy the output until the program ends. Return its wait status."""
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
    kill_orphans()
    drain(pipe, output, chunk)
    return status


def drain(pipe: int, output: OutputFiles, chunk: int) -> None:
    """Copy the rest of the output, with a limit in case another process still writes."""
    os.set_blocking(pipe, False)
    left = 1_048_576
    with suppress(BlockingIOError):
        while left > 0 and (data := os.read(pipe, chunk)):
            output.write(data)
            left -= len(data)


def exit_result(status: int) -> tuple[int, str]:
    """Return the exit code in the convention of shells and Docker, and a description."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return 128 - code, f"killed by {name}"


def wake_on_child_end() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def supervise(job: Job, lock: int, record: RecordFile) -> None:
    """Wait for the start delay, run the program and record its end."""
    directory = job.directory
    # The working directory exists only if a program has run here before.
    ran_before = os.path.isdir(f"{directory}/{WORK}")
    time.sleep(job.start_s if ran_before else job.first_start_s)
    try:
        work = create_work_directory(directory, job.account)
        prune_outputs(directory)
        output = OutputFiles(f"{directory}/{output_name(job.assignment)}", job.output_bytes)
        wake = wake_on_child_end()
        program, pipe, failure = fork_program(job, work, lock, record)
    except OSError as error:
        record.write(ENDED, exit_code=None, detail=f"the run could not be prepared: {error}")
        return
    adopt_orphans()
    exit_code, detail = exit_result(copy_output(program, pipe, output, wake))
    record.write(ENDED, exit_code=exit_code, detail=failure or detail)


def run_job() -> None:
    """Launch and supervise the job on standard input."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        with open(0, "rb", closefd=False) as stdin:
            job = Job(stdin.read())
        os.chdir(job.directory)  # so that a list of processes shows the container
        lock, record = claim(job.directory, job.assignment)
    except LaunchRefused as refusal:
        return send_answer(str(refusal))
    except FileNotFoundError:
        return send_answer("gone")
    except (OSError, ValueError) as error:
        return send_answer(f"failed {error}")
    send_answer("started")
    try:
        supervise(job, lock, record)
    finally:
        # Where orphans cannot be adopted, kill the process group, including this process.
        with suppress(ProcessLookupError):
            os.killpg(os.getpid(), signal.SIGKILL)


def fork_launchers() -> None:
    """Fork a launcher for each job until the control plane closes the socket."""
    jobs = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap launchers automatically
    while True:
        message, descriptors, _, _ = socket.recv_fds(jobs, 1, 2)
        if not message:
            return
        is_launcher = os.fork() == 0
        if is_launcher:
            os.setsid()
            for standard, descriptor in zip(
                (0, 1, 2), (*descriptors, descriptors[-1]), strict=True
            ):
                os.dup2(descriptor, standard)
        for descriptor in descriptors:
            os.close(descriptor)
        if is_launcher:
            run_job()
            return


if __name__ == "__main__":
    fork_launchers()
