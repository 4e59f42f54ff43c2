"""A replica that begins a start on Docker until the test kills it: `<job as JSON>`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from botpool.backends.docker import DockerBackend, DockerConfig
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId


async def main(job: dict[str, Any]) -> None:
    config = DockerConfig(**{**job["config"], "folder": Path(job["config"]["folder"])})
    request = StartRequest(
        container_id=ContainerId(job["container_id"]),
        assignment_id=AssignmentId(job["assignment_id"]),
        correlation_id="crash",
        environment=job["environment"],
    )
    await DockerBackend(config).start(request, timeout_s=600)


asyncio.run(main(json.loads(sys.argv[1])))
