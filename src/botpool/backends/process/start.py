"""Starting a launcher, and hearing its one word of answer."""

import asyncio
import json
import os
import tempfile
from dataclasses import dataclass

from botpool.backends.process.directory import Directory
from botpool.backends.process.nursery import Nursery
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId

PASSED_ON = frozenset({"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"})
"""All that a program gets of the control plane's own environment, which holds secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How this backend starts every program."""

    command: tuple[str, ...]
    first_start_s: float
    start_s: float
    output_bytes: int


def launch(directory: Directory, order: StartRequest, manner: Manner, nursery: Nursery) -> int:
    """Start the launcher in a session of its own; where its answer is read.

    The order goes through a nameless file: the environment is on no command line, and a launcher
    never gets half of it, even if we are killed now.
    """
    told = {
        "directory": directory.path,
        "assignment": order.assignment_id,
        "command": manner.command,
        "environment": passed_on() | dict(order.environment),
        "first_start_s": manner.first_start_s,
        "start_s": manner.start_s,
        "output_bytes": manner.output_bytes,
    }
    with tempfile.TemporaryFile(dir=directory.path) as file:
        file.write(json.dumps(told).encode())
        file.seek(0)
        return nursery.fork(file.fileno())


def passed_on() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith("LC_")
    }


async def answer_of(heard: int) -> str:
    """All that the launcher says before it closes its output: when it holds the lock, or ends."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(heard, "rb", buffering=0)
    )
    try:
        return (await reader.read()).decode(errors="replace").strip()
    finally:
        transport.close()


def judge(answer: str, directory: Directory, assignment_id: AssignmentId) -> None:
    """Nothing when the assignment runs or ran; else the error that the answer means."""
    word, _, detail = answer.partition(" ")
    match word:
        case "started" | "already":
            return
        case "superseded":
            raise StartSuperseded(directory.container_id, detail)
        case "" if assignment_id <= directory.fence():
            raise StartSuperseded(directory.container_id, "stopped while it was being started")
        case "gone":
            raise ContainerGone(directory.container_id)
        case "failed":
            raise BackendUnavailable(f"start: {detail}")
        case _:
            raise BackendUnavailable(f"start: the launcher broke: {answer[-500:]!r}")
