"""A control plane that begins a start on Docker and waits to be killed: `<order as JSON>`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from botpool.backends.docker import DockerBackend, DockerConfig
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId


async def main(told: dict[str, Any]) -> None:
    config = DockerConfig(**{**told["config"], "folder": Path(told["config"]["folder"])})
    order = StartRequest(
        container_id=ContainerId(told["container_id"]),
        assignment_id=AssignmentId(told["assignment_id"]),
        correlation_id="crash",
        environment=told["environment"],
    )
    await DockerBackend(config).start(order, timeout_s=600)


asyncio.run(main(json.loads(sys.argv[1])))
