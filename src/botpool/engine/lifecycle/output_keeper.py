"""Keeps the end of a run's output with its bot, before the slot's next bot replaces it.

The release step reads the output between the confirmed stop and the hand-over. On a backend with
status lag, which removes the output with the stop, it reads before the first stop. Reading is best
effort: it is limited in time and size, and a failure never fails or repeats the release. After a
crash before the hand-over, the step is repeated and writes the same output again; a repetition
after it changes nothing, because a backend returns the output of the named assignment only.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog

from botpool.domain.bot_data import MAX_OUTPUT_BYTES
from botpool.domain.errors import BackendError, DatabaseUnavailable
from botpool.domain.fenced_slots import LeasedSlot, ObservedSlot
from botpool.domain.ids import PoolName
from botpool.engine.service import Service
from botpool.store.bot_data import keep_output

_log = structlog.get_logger()
_READ_TIMEOUT_S = 2.0
_MARGIN_BYTES = 64 * 1024
"""Read beyond the kept end and cut after the masking: a secret across the cut is masked whole."""
_LINES = 2_000
"""More lines than 64 KiB usually have, so that a backend need not send a whole long output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputKeeper(Service):
    """Reads the last output of a run and stores it without the pool's secrets."""

    mask: Callable[[PoolName, bytes], bytes]

    async def keep(self, slot: LeasedSlot | ObservedSlot) -> None:
        """Store the end of the output of the slot's run, if there is any."""
        bot_id, assignment_id, container_id = slot.bot_id, slot.assignment_id, slot.container_id
        run = slot.run
        if bot_id is None or assignment_id is None or container_id is None or run is None:
            return
        backend = self.backends[slot.backend]
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                output, is_whole = await _read_end(
                    backend.logs(container_id, run, tail=_LINES, follow=False)
                )
                output = self.mask(slot.pool_name, output)[-MAX_OUTPUT_BYTES:]
                if output:
                    await keep_output(
                        self.database,
                        bot_id=bot_id,
                        assignment_id=assignment_id,
                        output=output,
                        is_whole=is_whole,
                    )
        except (BackendError, DatabaseUnavailable, TimeoutError, OSError) as error:
            _log.warning(
                "release.output_not_kept",
                slot=slot.slot_id,
                bot=bot_id,
                correlation_id=slot.correlation_id,
                problem=str(error) or type(error).__name__,
            )


async def _read_end(parts: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Return the last bytes of the output, and whether these are all of it."""
    end, size, lines = bytearray(), 0, 0
    async for part in parts:
        end += part
        size += len(part)
        lines += part.count(b"\n")
        del end[: max(0, len(end) - MAX_OUTPUT_BYTES - _MARGIN_BYTES)]
    return bytes(end), size <= MAX_OUTPUT_BYTES and lines < _LINES
