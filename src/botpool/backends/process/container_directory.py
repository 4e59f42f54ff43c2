"""One container: a directory with its identity, lock, fence and the record of its last run."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from botpool.backends.process import launcher, run_lock
from botpool.domain.errors import BackendError, CallSuperseded, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState, Observation

IDENTITY = "container.json"
DESCRIPTION = "description"

DELETED_FENCE = AssignmentId(2**63 - 1)
"""The fence of a container that is being deleted: no assignment can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerIdentity:
    """The owner of a container. It is written before the directory gets its final name."""

    name: str
    installation: str
    image: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The last run, as its launcher recorded it."""

    assignment_id: AssignmentId
    pid: int
    """The pid of the launcher, which leads the process group."""
    program_pid: int | None
    state: str
    exit_code: int | None
    detail: str

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> "RunRecord":
        program, exit_code = fields.get("program"), fields.get("exit_code")
        return cls(
            assignment_id=AssignmentId(int(str(fields["assignment"]))),
            pid=_process_id(fields["pid"]),
            program_pid=_process_id(program) if program is not None else None,
            state=str(fields["state"]),
            exit_code=exit_code if isinstance(exit_code, int) else None,
            detail=str(fields.get("detail") or "ended, but its supervisor was killed"),
        )

    def is_same_run(self, other: "RunRecord | None") -> bool:
        return other is not None and (self.assignment_id, self.pid) == (
            other.assignment_id,
            other.pid,
        )


class ContainerDirectory:
    """Paths are strings, because observing thousands of containers with pathlib is slow."""

    __slots__ = ("container_id", "lock", "path")

    def __init__(self, root: str, container_id: ContainerId) -> None:
        self.container_id = container_id
        self.path = f"{root}/{container_id}"
        self.lock = f"{self.path}/{launcher.LOCK}"

    def initialize(self, identity: ContainerIdentity) -> None:
        """Write the files of a new container.

        The fence has its full width from the start, so raising it needs no space on a full disk.
        """
        self.write_identity(identity)
        _write_atomically(f"{self.path}/{launcher.FENCE}", _digits(0))
        _write_atomically(self.lock, "")

    def write_identity(self, identity: ContainerIdentity) -> None:
        _write_atomically(f"{self.path}/{IDENTITY}", json.dumps(asdict(identity)))

    def read_identity(self) -> ContainerIdentity | None:
        """Return the identity, or None if this is not a complete container."""
        try:
            text = launcher.read_text(f"{self.path}/{IDENTITY}") or ""
            return ContainerIdentity(**json.loads(text))
        except (ValueError, TypeError, NotADirectoryError):
            return None

    def last_run(self) -> RunRecord | None:
        text = launcher.read_record(self.path)
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return RunRecord.from_json(json.loads(text or ""))
        return None

    def exists(self) -> bool:
        return os.path.exists(self.lock)  # noqa: PTH110 - every observation calls this

    def is_running(self) -> bool:
        """Whether a process of a run holds the lock."""
        return run_lock.is_held(self.lock)

    def fence(self) -> AssignmentId:
        """Return the largest assignment id that must never run in this container."""
        return AssignmentId(int(launcher.read_text(f"{self.path}/{launcher.FENCE}") or 0))

    def raise_fence(self, assignment_id: AssignmentId) -> None:
        """Raise the fence under a lock; concurrent writers never lower it."""
        fd = os.open(f"{self.path}/{launcher.FENCE}", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if int(os.pread(fd, 32, 0) or 0) < assignment_id:
                os.pwrite(fd, _digits(assignment_id).encode(), 0)
        finally:
            os.close(fd)

    def refuse_further_runs(self, *, after: AssignmentId) -> None:
        """Set the fence of a deletion, unless an assignment later than `after` has run here.

        A launcher reads the fence while it holds the lock, so no run begins between the test and
        the fence.
        """
        with run_lock.held(self.lock) as is_held:
            run = self.last_run()
            if not is_held or (run is not None and run.assignment_id > after):
                raise self.not_ended(after)
            self.raise_fence(DELETED_FENCE)

    def not_ended(self, through: AssignmentId) -> BackendError:
        """Return the error of a call that may end assignments up to `through` and must wait."""
        run = self.last_run()
        if run is not None and run.assignment_id > through:
            detail = f"assignment {run.assignment_id} came after {through}"
            return CallSuperseded(self.container_id, detail)
        return StillRunning(f"the program in {self.container_id} has not ended yet")

    def describe(self, text: str) -> None:
        _write_atomically(f"{self.path}/{DESCRIPTION}", text + "\n")

    def observe(self) -> Observation:
        """Read the record BEFORE testing the lock.

        An unfinished record with a free lock then belongs to a run that has ended, never to a run
        that began in between.
        """
        run = self.last_run()
        if self.is_running():
            starting = run is None or run.state == launcher.STARTING
            return Observation(
                container_id=self.container_id,
                state=ContainerState.STARTING if starting else ContainerState.RUNNING,
                assignment_id=run.assignment_id if run else None,
            )
        if run is None:
            return Observation(
                container_id=self.container_id,
                state=ContainerState.STOPPED,
                detail="never started",
            )
        stopped = run.assignment_id <= self.fence()
        return Observation(
            container_id=self.container_id,
            state=ContainerState.STOPPED if stopped else ContainerState.EXITED,
            assignment_id=run.assignment_id,
            exit_code=run.exit_code,
            detail=run.detail,
        )


def _process_id(value: object) -> int:
    """Reject 0, -1 and 1, which `kill` takes for our own group, all processes and init."""
    if isinstance(value, int) and value > 1:
        return value
    raise ValueError(f"{value!r} is not the pid of a launcher or program")


def _digits(number: int) -> str:
    return f"{number:019d}"


def _write_atomically(path: str, text: str) -> None:
    """Replace a small file; a crash never leaves half of it."""
    temporary = Path(f"{path}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
