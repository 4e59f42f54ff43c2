"""The conformance harness of the process backend."""

import asyncio
import json
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import botpool
from botpool.backends.process import OUR_USER, BotUsers, ProcessBackend
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.harness import TIMEOUT_S, Capabilities, ProgramRun
from tests.support.fences import ANY_ASSIGNMENT

HERE = Path(__file__).parent
COMMAND = (sys.executable, "-I", "-S", str(HERE / "bot_program.py"))


class ProcessHarness:
    capabilities = Capabilities()
    command: Sequence[str] = COMMAND
    users: BotUsers = OUR_USER

    def __init__(self, folder: Path) -> None:
        self.root = folder / "containers"
        self._reports = folder / "reports"
        self._reports.mkdir()
        self._open: list[ProcessBackend] = []

    async def open_backend(
        self,
        installation: str = "one",
        start_s: float = 0,
        *,
        first_start_s: float | None = None,
        command: Sequence[str] | None = None,
        output_bytes: int = 1_048_576,
        stop_grace_s: float = 0.3,
    ) -> ProcessBackend:
        backend = ProcessBackend(
            self.root,
            installation,
            command or self.command,
            first_start_s=start_s if first_start_s is None else first_start_s,
            start_s=start_s,
            stop_grace_s=stop_grace_s,
            output_bytes=output_bytes,
            users=self.users,
        )
        await backend.open()
        self._open.append(backend)
        return backend

    def program_environment(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "REPORT_TO": str(self._reports),
        }

    def runs(self, assignment_id: AssignmentId | str) -> Sequence[ProgramRun]:
        found = self._reports.glob(f"{assignment_id}.*.json")
        return [ProgramRun(**json.loads(path.read_text())) for path in found]

    def directory(self, container_id: ContainerId) -> Path:
        return self.root / container_id

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        name, _, _ = container_id.rpartition(".")
        younger = ContainerId(f"{name}.{secrets.token_hex(3)}")
        shutil.copytree(self.directory(container_id), self.directory(younger))
        identity = self.directory(younger) / "container.json"
        fields = json.loads(identity.read_text()) | {
            "created_at": "2999-01-01T00:00:00.000000+00:00"
        }
        identity.write_text(json.dumps(fields))
        return younger

    async def crash_during_start(self, request: StartRequest) -> None:
        job = {
            "root": str(self.root),
            "installation": "one",
            "command": self.command,
            "first_uid": self.users.first_uid,
            "container_id": request.container_id,
            "assignment_id": request.assignment_id,
            "environment": dict(request.environment),
        }
        killed = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "killed_process_start.py"),
            json.dumps(job),
            env={"PYTHONPATH": str(Path(botpool.__file__).parents[1])},
        )
        assert await killed.wait() == -signal.SIGKILL

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Simulate a lost disk: only an empty mount point is left."""
        elsewhere = self.root.rename(self.root.with_name("elsewhere"))
        self.root.mkdir()
        yield
        self.root.rmdir()
        elsewhere.rename(self.root)

    async def clear(self) -> None:
        """Stop all processes that a test left."""
        for installation in ("one", "two"):
            backend = await self.open_backend(installation, stop_grace_s=0)
            for found in await backend.list_owned(timeout_s=TIMEOUT_S):
                await backend.delete(
                    found.container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S
                )
        for backend in self._open:
            await backend.close()
