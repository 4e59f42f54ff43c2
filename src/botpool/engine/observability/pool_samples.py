"""How the pools stood, noted several times a minute: charts of the last hours are drawn from it.

Who arrived and who began to run is known from bots and assignments. How long the queue was and what
the slots did is known only now, so it is written down, small, and forgotten after two days.
"""

from dataclasses import dataclass

from botpool.store.database import Database

_KEPT_H = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSamples:
    database: Database

    async def note(self) -> None:
        await self.database.fetch("record_pool_sample", {"kept_h": _KEPT_H})
