"""A replica that is killed with SIGKILL just after it has sent a start."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botpool.backends.process import BotUsers, ProcessBackend
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId


def send_and_die(*sent: Any, send: Callable[..., object] = socket.send_fds) -> None:
    send(*sent)
    os.kill(os.getpid(), signal.SIGKILL)


async def main(job: dict[str, Any]) -> None:
    users = BotUsers(first_uid=job["first_uid"])
    backend = ProcessBackend(Path(job["root"]), job["installation"], job["command"], users=users)
    await backend.open()
    socket.send_fds = send_and_die  # type: ignore[assignment]
    request = StartRequest(
        container_id=ContainerId(job["container_id"]),
        assignment_id=AssignmentId(job["assignment_id"]),
        correlation_id="crash",
        environment=job["environment"],
    )
    await backend.start(request, timeout_s=10)


asyncio.run(main(json.loads(sys.argv[1])))
