"""Pulls images in separate processes that outlive the call and the replica that began them.

A daemon aborts a pull when its client disconnects, and a pull takes minutes where a call has
seconds. So each pull runs in its own process (`puller.py`). A start waits for it until its timeout
and is then repeated. If the replica is killed, the next start finds the image, or begins a puller
that waits for the running one, so the image is pulled once.
"""

import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from botpool.backends.docker import error_messages
from botpool.backends.docker.config import DockerConfig
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, BudgetExhausted
from botpool.domain.ids import AssignmentId

_POLL_S = 0.05
_RESERVED_FOR_START_S = 2.0
"""The part of a call's timeout that creating and starting the container needs after the pull."""
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pull:
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    requested_by: set[AssignmentId] = field(default_factory=set)
    """Only these assignments get the error of a failed pull; a later one begins a new pull."""

    def is_stale_for(self, assignment_id: AssignmentId) -> bool:
        return self.process.poll() is not None and assignment_id not in self.requested_by

    def error(self) -> str | None:
        """Return the error of a pull that has ended, or None if it succeeded."""
        self.output.seek(0)
        output = self.output.read().decode(errors="replace").strip()
        self.output.close()
        if self.process.returncode == 0:
            return None
        return output.splitlines()[-1] if output else "the pull ended without a message"


class Pulls:
    """The pulls that this process has begun, by image."""

    def __init__(self, config: DockerConfig) -> None:
        self._config = config
        self._in_progress: dict[str, _Pull] = {}

    async def wait(
        self, spec: ContainerSpec, assignment_id: AssignmentId, *, within_s: float
    ) -> None:
        """Pull the image. Raises BudgetExhausted if the caller must call again."""
        pull = self._in_progress.get(spec.image)
        if pull is None or pull.is_stale_for(assignment_id):
            pull = self._in_progress[spec.image] = self._begin(spec.image)
        pull.requested_by.add(assignment_id)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + within_s - _RESERVED_FOR_START_S
        while pull.process.poll() is None:
            if loop.time() >= ends_at:
                raise BudgetExhausted(f"{spec.image} is being pulled", _RETRY_S)
            await asyncio.sleep(_POLL_S)
        # The first caller that finds the end reports it; the next caller begins a new pull.
        if self._in_progress.get(spec.image) is pull:
            del self._in_progress[spec.image]
            if error := pull.error():
                raise error_messages.pull_failed(error, spec)

    def _begin(self, image: str) -> _Pull:
        job = {"image": image, "host": self._config.host, "lock": str(self._lock_path(image))}
        try:
            self._config.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            output = tempfile.TemporaryFile()  # noqa: SIM115 - `_Pull.error` closes it
            process = subprocess.Popen(
                [sys.executable, "-m", "botpool.backends.docker.puller", json.dumps(job)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BackendUnavailable(f"cannot begin the pull of {image}: {error}") from error
        return _Pull(process=process, output=output)

    def _lock_path(self, image: str) -> Path:
        return self._config.folder / f"pull-{hashlib.sha256(image.encode()).hexdigest()[:16]}.lock"
