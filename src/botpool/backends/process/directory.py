"""One container: a directory with its mark, its lock, its fence and the record of its last run."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from botpool.backends.process import launcher, locks
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState, Observation

MARK = "container.json"
DESCRIPTION = "description"

NEVER_AGAIN = AssignmentId(2**63 - 1)
"""The fence of a container that is being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Whose container this is. Written before the directory gets its name, so none lacks it."""

    name: str
    installation: str
    image: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The last run, as its launcher wrote it down."""

    assignment_id: AssignmentId
    pid: int
    """The launcher's, which leads the process group."""
    program_pid: int | None
    state: str
    exit_code: int | None
    detail: str

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> "Run":
        program, exit_code = fields.get("program"), fields.get("exit_code")
        return cls(
            assignment_id=AssignmentId(int(str(fields["assignment"]))),
            pid=_process_id(fields["pid"]),
            program_pid=_process_id(program) if program is not None else None,
            state=str(fields["state"]),
            exit_code=exit_code if isinstance(exit_code, int) else None,
            detail=str(fields.get("detail") or "ended, and nobody was left to say how"),
        )

    def is_same(self, other: "Run | None") -> bool:
        return other is not None and (self.assignment_id, self.pid) == (
            other.assignment_id,
            other.pid,
        )


class Directory:
    """Paths are strings: a look at a thousand containers should cost a few dozen milliseconds."""

    __slots__ = ("container_id", "lock", "path")

    def __init__(self, root: str, container_id: ContainerId) -> None:
        self.container_id = container_id
        self.path = f"{root}/{container_id}"
        self.lock = f"{self.path}/{launcher.LOCK}"

    def fill(self, mark: Mark) -> None:
        """Make an empty directory a container.

        The fence has its full width from the start: raising it needs no room on a full disk.
        """
        self.write_mark(mark)
        _write_atomically(f"{self.path}/{launcher.FENCE}", _digits(0))
        _write_atomically(self.lock, "")

    def write_mark(self, mark: Mark) -> None:
        _write_atomically(f"{self.path}/{MARK}", json.dumps(asdict(mark)))

    def mark(self) -> Mark | None:
        """Whose it is; none for what is no container, or is not whole."""
        try:
            return Mark(**json.loads(launcher.read_text(f"{self.path}/{MARK}") or ""))
        except (ValueError, TypeError, NotADirectoryError):
            return None

    def run(self) -> Run | None:
        text = launcher.read_record(self.path)
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return Run.from_json(json.loads(text or ""))
        return None

    def exists(self) -> bool:
        return os.path.exists(self.lock)  # noqa: PTH110 - in every look at every container

    def is_held(self) -> bool:
        return locks.is_held(self.lock)

    def fence(self) -> AssignmentId:
        """The largest assignment that must never run here."""
        return AssignmentId(int(launcher.read_text(f"{self.path}/{launcher.FENCE}") or 0))

    def raise_fence(self, assignment_id: AssignmentId) -> None:
        """Never lowers it, whoever else writes: read and written under one lock, in place."""
        fd = os.open(f"{self.path}/{launcher.FENCE}", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if int(os.pread(fd, 32, 0) or 0) < assignment_id:
                os.pwrite(fd, _digits(assignment_id).encode(), 0)
        finally:
            os.close(fd)

    def describe(self, text: str) -> None:
        _write_atomically(f"{self.path}/{DESCRIPTION}", text + "\n")

    def observe(self) -> Observation:
        """The record is read BEFORE the lock is tested.

        So an unfinished record with a free lock is the record of a run that is over, and never
        that of one which began in between.
        """
        run = self.run()
        if self.is_held():
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
    """To `kill`, 0 means our own group, -1 everybody, 1 is `init`: a record has none of them."""
    if isinstance(value, int) and value > 1:
        return value
    raise ValueError(f"{value!r} is the id of no process of ours")


def _digits(number: int) -> str:
    return f"{number:019d}"


def _write_atomically(path: str, text: str) -> None:
    """Replace a small file, so that no crash of ours leaves half of it."""
    temporary = Path(f"{path}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
