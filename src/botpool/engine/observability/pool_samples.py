"""Records the state of the pools several times a minute, for charts of the last hours.

Arrivals and starts can be read from bots and assignments later; queue depth and slots by status
cannot, so they are recorded and kept for two days.
"""

from dataclasses import dataclass

from botpool.store.database import Database
from botpool.store.pools import record_pool_sample

_KEPT_H = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSamples:
    """Records samples of all pools."""

    database: Database

    async def record(self) -> None:
        """Record the state of every pool in the current minute."""
        await record_pool_sample(self.database, kept_h=_KEPT_H)
