"""Records that this replica is alive, can write and can write heartbeats.

Time in which this installation cannot accept, answer or write heartbeats is a gap, and the silence
of agents counts only from the end of the last gap. A replica that disappears without a word leaves
a gap too, because agents that call it get no answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from botpool.domain.errors import DatabaseProblem, DatabaseUnavailable
from botpool.store import liveness as statements
from botpool.store.database import Database

_REFUSED_WRITES = frozenset(
    {DatabaseProblem.READ_ONLY, DatabaseProblem.DISK_FULL, DatabaseProblem.NOT_PERMITTED}
)
_LONGEST_INTERVAL_S = 10.0
_ROUNDS_OF_A_GAP = 3


class Liveness:
    """The liveness of one replica."""

    def __init__(
        self,
        database: Database,
        *,
        replica: str,
        public_url: str,
        freshness_s: float,
        heartbeats_work: Callable[[], bool],
        check_heartbeats: Callable[[], Awaitable[None]],
    ) -> None:
        """`freshness_s`: how long an agent may be silent."""
        self._database = database
        self._replica = replica
        self._public_url = public_url
        self._freshness_s = freshness_s
        self._heartbeats_work = heartbeats_work
        self._check_heartbeats = check_heartbeats
        self.interval_s = min(_LONGEST_INTERVAL_S, freshness_s / 9)
        self._gap_s = _ROUNDS_OF_A_GAP * self.interval_s
        self.problem: str | None = None
        """Why the database refuses writes, or None."""
        self.wake = asyncio.Event()
        """Set when the database refused a write: the next check is due now."""
        database.on_failure = self._on_failure

    async def check(self) -> None:
        """Record that this replica is alive, and check that the database accepts writes."""
        try:
            await self._check_heartbeats()
            await self.record()
            await self._database.rehearse(statements.insert_write_probe.statement())
        except DatabaseUnavailable as error:
            self.problem = str(error) if error.problem in _REFUSED_WRITES else None
            raise
        self.problem = None

    async def record(self) -> datetime:
        """Record that this replica is alive and return when the last gap ended."""
        return await statements.record_liveness(
            self._database,
            replica=self._replica,
            public_url=self._public_url,
            heartbeats_work=self._heartbeats_work(),
            gap_s=self._gap_s,
            lost_s=self._freshness_s,
        )

    async def end(self) -> None:
        """Record that this replica stops in order."""
        await statements.end_liveness(self._database, replica=self._replica, gap_s=self._gap_s)

    async def others(self) -> list[statements.LiveReplica]:
        """Return the other live replicas."""
        alive = await statements.list_live_replicas(self._database, within_s=self._gap_s)
        return [each for each in alive if each.replica != self._replica]

    def _on_failure(self, failure: DatabaseUnavailable) -> None:
        if failure.problem in _REFUSED_WRITES:
            self.problem = str(failure)
            self.wake.set()
