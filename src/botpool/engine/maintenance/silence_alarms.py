"""The alarm for mass silence: so many silent bots in a pool that Botpool may be the cause.

The alarm is a column of the pool, and the counts come from the database. So all replicas agree,
however their passes divide the silent bots between them. The replica that raises or ends an alarm
logs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from botpool.domain.ids import PoolName, SlotId
from botpool.domain.recovery import is_mass_silence
from botpool.engine.service import Service
from botpool.store import recovery as statements
from botpool.store.recovery import PoolSilence

_log = structlog.get_logger()
_MISSED_HEARTBEATS = 3
"""Once a bot is silent for a window, others count as silent after so many missing heartbeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceAlarms(Service):
    """Raises and ends the alarms of pools."""

    async def update(self, *, gap_ended_at: datetime, exited: Sequence[SlotId]) -> set[PoolName]:
        """Raise and end alarms; return the pools with mass silence.

        `exited` are the slots whose containers have exited, which explains the silence.
        """
        pools = await statements.measure_silence(
            self.database,
            late_s=_MISSED_HEARTBEATS * self.policy.heartbeat_interval_ms / 1000,
            window_s=self.policy.recovery.heartbeat_freshness_s,
            gap_ended_at=gap_ended_at,
            exited=exited,
        )
        return {pool.pool_name for pool in pools if await self._raise_or_end_alarm(pool)}

    async def _raise_or_end_alarm(self, pool: PoolSilence) -> bool:
        raised_at = pool.silence_alarm_at
        is_silent = is_mass_silence(silent=pool.silent, live=pool.live)
        if is_silent and raised_at is None:
            await self._raise(pool)
        elif not is_silent and raised_at is not None:
            await self._end(pool, raised_at)
        return is_silent

    async def _raise(self, pool: PoolSilence) -> None:
        if await statements.raise_silence_alarm(
            self.database, pool_name=pool.pool_name, silent=pool.silent, live=pool.live
        ):
            _log.error(
                "recovery.mass_silence", pool=pool.pool_name, silent=pool.silent, bots=pool.live
            )

    async def _end(self, pool: PoolSilence, raised_at: datetime) -> None:
        if await statements.end_silence_alarm(
            self.database, pool_name=pool.pool_name, raised_at=raised_at
        ):
            _log.info("recovery.mass_silence_ended", pool=pool.pool_name, since=raised_at)
