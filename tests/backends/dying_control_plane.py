"""A control plane that is killed (-9) at the moment when it has forked a launcher."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from botpool.backends.process import ProcessBackend
from botpool.backends.protocol import StartOrder
from botpool.domain.ids import AssignmentId, ContainerId


class LastAct(subprocess.Popen[bytes]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)


async def main(told: dict[str, Any]) -> None:
    backend = ProcessBackend(Path(told["root"]), told["installation"], told["command"])
    await backend.open()
    subprocess.Popen = LastAct  # type: ignore[misc, assignment]
    order = StartOrder(
        container_id=ContainerId(told["container_id"]),
        assignment_id=AssignmentId(told["assignment_id"]),
        correlation_id="crash",
        environment=told["environment"],
    )
    await backend.start(order, timeout_s=10)


asyncio.run(main(json.loads(sys.argv[1])))
