"""The last lines that a container printed, for the failure reason of its bot.

The exit code says that a bot failed, and only its output says why. The lines are read when the exit
is observed, before the container's next run replaces its output. Without an answer of the backend,
the reason lacks the lines: the end of the bot does not wait.
"""

import asyncio
from dataclasses import dataclass, field

from botpool.domain.communication import Outcome
from botpool.domain.errors import BackendError, BackendUnavailable
from botpool.domain.fenced_slots import BackendSlot
from botpool.domain.observation import Observation
from botpool.engine.lifecycle.container_environment import ContainerEnvironment
from botpool.engine.observability import event_log
from botpool.engine.service import Service

_LINES = 20
_MAX_CHARACTERS = 1_500
_TIMEOUT_S = 3.0
"""Includes the wait for other reads: the end of no bot waits longer, however many exit at once."""
_MAX_READS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOutput(Service):
    """Reads the last output of containers whose exit code decides."""

    environment: ContainerEnvironment
    reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_READS))

    async def read(self, slot: BackendSlot, observation: Observation) -> str:
        """Return the last lines of a failed container; empty where they decide nothing."""
        is_failure = slot.outcome is Outcome.EXIT_CODE and observation.exit_code != 0
        container_id, run = slot.container_id, slot.run
        if not is_failure or container_id is None or run is None:
            return ""
        output = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT_S), self.reads:
                async for chunk in self.backends[slot.backend].logs(
                    container_id, run, tail=_LINES, follow=False
                ):
                    output += chunk
        except (BackendError, TimeoutError) as error:
            event_log.backend_unavailable(
                "output.unavailable", BackendUnavailable(str(error)), slot=slot.slot_id
            )
        # PostgreSQL stores no NUL.
        text = output.decode(errors="replace").replace("\0", "").strip()
        return self.environment.mask(slot.pool_name, text)[-_MAX_CHARACTERS:]
