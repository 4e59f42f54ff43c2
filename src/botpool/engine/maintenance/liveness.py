"""Records that this replica is alive, accepts connections and can write heartbeats.

Time in which this installation cannot accept, answer or write heartbeats is a gap, and the silence
of agents counts only from the end of the last gap. A replica that disappears without a word leaves
a gap too, because agents that call it get no answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from botpool.domain.errors import DatabaseProblem, DatabaseUnavailable
from botpool.store import liveness as statements
from botpool.store.database import Database

_log = structlog.get_logger()
_REFUSED_WRITES = frozenset(
    {DatabaseProblem.READ_ONLY, DatabaseProblem.DISK_FULL, DatabaseProblem.NOT_PERMITTED}
)
_LONGEST_INTERVAL_S = 10.0
_ROUNDS_OF_A_GAP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedListener:
    """The HTTP server of this replica, as agents reach it."""

    answers: Callable[[float], Awaitable[bool]]
    """Find out, within some seconds, whether the server accepts connections and answers."""
    file_limit: int
    """The limit of open files of this process."""
    files_needed: int
    """The limit of open files that `limits.connections` needs."""


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
        self._failures = 0
        """How often the database failed this replica since the last record."""
        self._check_heartbeats = check_heartbeats
        self.interval_s = min(_LONGEST_INTERVAL_S, freshness_s / 9)
        self._gap_s = _ROUNDS_OF_A_GAP * self.interval_s
        self._listener: WatchedListener | None = None
        self.listener_answers = True
        """Whether the HTTP server answered the last check; true before the first."""
        self.problem: str | None = None
        """Why the database refuses writes, or None."""
        self.wake = asyncio.Event()
        """Set when the database refused a write: the next check is due now."""
        database.on_failure = self._on_failure

    def watch(self, listener: WatchedListener) -> None:
        """Check from now on that the HTTP server answers."""
        self._listener = listener

    async def check(self) -> None:
        """Record that this replica is alive, and check that the database accepts writes."""
        await self._check_listener()
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
        listener = self._listener
        failures = self._failures
        gap_ended_at = await statements.record_liveness(
            self._database,
            replica=self._replica,
            public_url=self._public_url,
            heartbeats_work=self._heartbeats_work(),
            # The calls of an agent may fail while each check finds that heartbeats work.
            database_failed=failures > 0,
            listener_answers=self.listener_answers,
            file_limit=listener.file_limit if listener else None,
            files_needed=listener.files_needed if listener else None,
            gap_s=self._gap_s,
            lost_s=self._freshness_s,
        )
        self._failures -= failures
        return gap_ended_at

    async def end(self) -> None:
        """Record that this replica stops in order."""
        await statements.end_liveness(self._database, replica=self._replica, gap_s=self._gap_s)

    async def others(self) -> list[statements.LiveReplica]:
        """Return the other live replicas."""
        alive = await statements.list_live_replicas(self._database, within_s=self._gap_s)
        return [each for each in alive if each.replica != self._replica]

    async def _check_listener(self) -> None:
        if self._listener is None:
            return
        answers = await self._listener.answers(self.interval_s / 2)
        if answers != self.listener_answers:
            self.listener_answers = answers
            if answers:
                _log.info("listener.answers_again", replica=self._replica)
            else:
                _log.warning("listener.not_answering", replica=self._replica)

    def _on_failure(self, failure: DatabaseUnavailable) -> None:
        self._failures += 1
        if failure.problem in _REFUSED_WRITES:
            self.problem = str(failure)
            self.wake.set()
