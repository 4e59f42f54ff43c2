"""The conformance suite's view of local processes."""

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
from botpool.backends.process import ProcessBackend
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.harness import TIMEOUT_S, Traits, Witness

HERE = Path(__file__).parent
COMMAND = (sys.executable, "-I", "-S", str(HERE / "program.py"))


class ProcessHarness:
    traits = Traits()

    def __init__(self, folder: Path) -> None:
        self.root = folder / "containers"
        self._witnesses = folder / "witnesses"
        self._witnesses.mkdir()
        self._open: list[ProcessBackend] = []

    async def control_plane(
        self,
        installation: str = "one",
        start_s: float = 0,
        *,
        first_start_s: float | None = None,
        command: Sequence[str] = COMMAND,
        output_bytes: int = 1_048_576,
        stop_grace_s: float = 0.3,
    ) -> ProcessBackend:
        backend = ProcessBackend(
            self.root,
            installation,
            command,
            first_start_s=start_s if first_start_s is None else first_start_s,
            start_s=start_s,
            stop_grace_s=stop_grace_s,
            output_bytes=output_bytes,
        )
        await backend.open()
        self._open.append(backend)
        return backend

    def program(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "WITNESS": str(self._witnesses),
        }

    def runs(self, assignment_id: AssignmentId | str) -> Sequence[Witness]:
        found = self._witnesses.glob(f"{assignment_id}.*.json")
        return [Witness(**json.loads(path.read_text())) for path in found]

    def directory(self, container_id: ContainerId) -> Path:
        return self.root / container_id

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        name, _, _ = container_id.rpartition(".")
        younger = ContainerId(f"{name}.{secrets.token_hex(3)}")
        shutil.copytree(self.directory(container_id), self.directory(younger))
        mark = self.directory(younger) / "container.json"
        fields = json.loads(mark.read_text()) | {"created_at": "2999-01-01T00:00:00.000000+00:00"}
        mark.write_text(json.dumps(fields))
        return younger

    async def crash_in_start(self, order: StartRequest) -> None:
        told = {
            "root": str(self.root),
            "installation": "one",
            "command": COMMAND,
            "container_id": order.container_id,
            "assignment_id": order.assignment_id,
            "environment": dict(order.environment),
        }
        dying = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "dying_control_plane.py"),
            json.dumps(told),
            env={"PYTHONPATH": str(Path(botpool.__file__).parents[1])},
        )
        assert await dying.wait() == -signal.SIGKILL

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The disk is lost: what is left is an empty mount point."""
        elsewhere = self.root.rename(self.root.with_name("elsewhere"))
        self.root.mkdir()
        yield
        self.root.rmdir()
        elsewhere.rename(self.root)

    async def clear(self) -> None:
        """End every process that a test left."""
        for installation in ("one", "two"):
            backend = await self.control_plane(installation, stop_grace_s=0)
            for found in await backend.list_owned(timeout_s=TIMEOUT_S):
                await backend.delete(found.container_id, timeout_s=TIMEOUT_S)
        for backend in self._open:
            await backend.close()
