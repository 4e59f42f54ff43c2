"""Pulls that outlive the call that wanted them, and the process that made it.

A daemon breaks a pull off when its client hangs up, and a pull takes minutes where a call has
seconds. So each pull has a process of its own (`puller.py`), which nobody ends with us. A start
waits for it as long as its call lasts, then says that it must be called again. If we are killed,
the next start finds the image, or begins a puller that waits for the one that is left: one pull.
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

from botpool.backends.docker import refusals
from botpool.backends.docker.config import DockerConfig
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, BudgetExhausted
from botpool.domain.ids import AssignmentId

_POLL_S = 0.05
_LEFT_FOR_THE_START_S = 2.0
"""Of a call, for making and starting the container once its image is there."""
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pull:
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    wanted_by: set[AssignmentId] = field(default_factory=set)
    """Only they are told why it failed: of what others want later it says nothing."""

    def is_left_over(self, assignment_id: AssignmentId) -> bool:
        return self.process.poll() is not None and assignment_id not in self.wanted_by

    def problem(self) -> str | None:
        """Why it failed; None if it did not. Only once it has ended."""
        self.output.seek(0)
        said = self.output.read().decode(errors="replace").strip()
        self.output.close()
        return None if self.process.returncode == 0 else said.splitlines()[-1] if said else "ended"


class Pulls:
    """Those that this process has begun, by image."""

    def __init__(self, config: DockerConfig) -> None:
        self._config = config
        self._under_way: dict[str, _Pull] = {}

    async def pulled(
        self, spec: ContainerSpec, assignment_id: AssignmentId, *, within_s: float
    ) -> None:
        """Return once the image is present; raise why not, or `BudgetExhausted` to call again."""
        pull = self._under_way.get(spec.image)
        if pull is None or pull.is_left_over(assignment_id):
            pull = self._under_way[spec.image] = self._begin(spec.image)
        pull.wanted_by.add(assignment_id)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + within_s - _LEFT_FOR_THE_START_S
        while pull.process.poll() is None:
            if loop.time() >= ends_at:
                raise BudgetExhausted(f"{spec.image} is being pulled", _AGAIN_S)
            await asyncio.sleep(_POLL_S)
        # Whoever sees the end first tells it; the next one who wants the image begins anew.
        if self._under_way.get(spec.image) is pull:
            del self._under_way[spec.image]
            if problem := pull.problem():
                raise refusals.not_pulled(problem, spec)

    def _begin(self, image: str) -> _Pull:
        told = {"image": image, "host": self._config.host, "lock": str(self._lock(image))}
        try:
            self._config.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            output = tempfile.TemporaryFile()  # noqa: SIM115 - read and closed when it has ended
            process = subprocess.Popen(
                [sys.executable, "-m", "botpool.backends.docker.puller", json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BackendUnavailable(f"the pull of {image} cannot be begun: {error}") from error
        return _Pull(process=process, output=output)

    def _lock(self, image: str) -> Path:
        return self._config.folder / f"pull-{hashlib.sha256(image.encode()).hexdigest()[:16]}.lock"
