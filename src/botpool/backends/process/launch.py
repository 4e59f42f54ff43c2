"""Starts a launcher process and interprets its answer."""

import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from botpool.backends.process import launcher
from botpool.backends.process.bot_users import Account
from botpool.backends.process.container_directory import ContainerDirectory
from botpool.backends.process.fork_server import ForkServer
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId

INHERITED_VARIABLES = frozenset({"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"})
"""The only variables that a program inherits; the control plane's environment holds secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings:
    """How this backend starts every program."""

    command: tuple[str, ...]
    first_start_s: float
    start_s: float
    output_bytes: int


def launch(
    directory: ContainerDirectory,
    request: StartRequest,
    settings: ProgramSettings,
    account: Account | None,
    fork_server: ForkServer,
) -> int:
    """Start a launcher in its own session and return the descriptor of its answer.

    The job goes through an unnamed file: the environment appears on no command line, and the
    launcher never gets half of it, even if this process is killed.
    """
    command = (*request.entrypoint, *request.command)
    job = {
        **asdict(settings),
        "command": absolute(command) if command else settings.command,
        "directory": directory.path,
        "assignment": request.assignment_id,
        "account": account and (account.uid, account.gid),
        "environment": _program_environment(directory, account) | dict(request.environment),
    }
    with tempfile.TemporaryFile(dir=directory.path) as file:
        file.write(json.dumps(job).encode())
        file.seek(0)
        return fork_server.fork(file.fileno())


def _program_environment(directory: ContainerDirectory, account: Account | None) -> dict[str, str]:
    """Return the inherited variables; another user gets its working directory as its home."""
    inherited = inherited_environment()
    if account is None:
        return inherited
    inherited.pop("USER", None)
    work = f"{directory.path}/{launcher.WORK}"
    return inherited | {"HOME": work, "TMPDIR": work}


def absolute(command: Sequence[str]) -> tuple[str, ...]:
    """Resolve a relative path of the program now: it runs in another folder."""
    if command and os.sep in command[0]:
        return (str(Path(command[0]).absolute()), *command[1:])
    return tuple(command)


def inherited_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED_VARIABLES or name.startswith("LC_")
    }


async def read_answer(descriptor: int) -> str:
    """Read until the launcher closes its output, when it holds the lock or ends."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        return (await reader.read()).decode(errors="replace").strip()
    finally:
        transport.close()


def check_answer(answer: str, directory: ContainerDirectory, assignment_id: AssignmentId) -> None:
    """Return if the assignment runs or has run; otherwise raise the error of the answer."""
    word, _, detail = answer.partition(" ")
    match word:
        case "started" | "already":
            return
        case "superseded":
            raise StartSuperseded(directory.container_id, detail)
        case "" if assignment_id <= directory.fence():
            raise StartSuperseded(
                directory.container_id, "the assignment was stopped while it was starting"
            )
        case "gone":
            raise ContainerGone(directory.container_id)
        case "failed":
            raise BackendUnavailable(f"start: {detail}")
        case _:
            raise BackendUnavailable(f"start: the launcher failed: {answer[-500:]!r}")
