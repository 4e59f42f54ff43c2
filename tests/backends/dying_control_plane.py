"""A control plane that is killed (-9) at the moment when it has sent a start on its way."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botpool.backends.process import ProcessBackend
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId


def last_act(*sent: Any, send: Callable[..., object] = socket.send_fds) -> None:
    send(*sent)
    os.kill(os.getpid(), signal.SIGKILL)


async def main(told: dict[str, Any]) -> None:
    backend = ProcessBackend(Path(told["root"]), told["installation"], told["command"])
    await backend.open()
    socket.send_fds = last_act  # type: ignore[assignment]
    order = StartRequest(
        container_id=ContainerId(told["container_id"]),
        assignment_id=AssignmentId(told["assignment_id"]),
        correlation_id="crash",
        environment=told["environment"],
    )
    await backend.start(order, timeout_s=10)


asyncio.run(main(json.loads(sys.argv[1])))
