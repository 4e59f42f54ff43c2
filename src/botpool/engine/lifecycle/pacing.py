"""Adapts the pace of an egress to the fate of its bots.

A blocked bot lowers the pace of its pool's egress; many in a row open the circuit breaker, and the
egress starts no bot for a while. Then one bot, the probe, may start: if it is admitted to its
meeting, the breaker closes; if it is blocked, the breaker opens again for twice as long. With time
the pace rises to the configured one.

The start gate spends the permits (`pass_start_gate.sql`), and the matcher assigns no more bots than
could start, so that the others keep their place in the queue.

The end of a bot is committed before its block is reported. A process that dies in between loses one
report, which delays the adaptation by one bot. A repeated report of the end changes nothing, so no
block counts twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import AssignmentId, PoolName
from botpool.domain.pools import PoolSpec
from botpool.engine.service import Service
from botpool.store.pacing import report_admitted_bot, report_blocked_bot

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingControl(Service):
    """Lowers the pace and opens and closes the circuit breakers of egresses."""

    paced_pools: set[PoolName] = field(default_factory=set)
    """The pools with a pace in the settings. Bots of others cause no statement."""

    def configure(self, specs: Sequence[PoolSpec]) -> None:
        """Take the pools of the settings."""
        self.paced_pools.clear()
        self.paced_pools.update(spec.pool_name for spec in specs if spec.pacing)

    async def report_blocked(self, pool_name: PoolName, assignment_id: AssignmentId) -> None:
        """Lower the pace, because the meeting platform blocked the bot of an assignment."""
        if pool_name not in self.paced_pools:
            return
        try:
            blocked = await report_blocked_bot(
                self.database, pool_name=pool_name, assignment_id=assignment_id
            )
        except DatabaseUnavailable as error:
            _log.warning("pacing.report_lost", pool=pool_name, problem=error.detail)
            return
        if blocked is None:
            return
        pace = round(blocked.per_minute, 2)
        if blocked.opened:
            _log.error(
                "pacing.breaker_opened",
                egress=blocked.egress,
                blocks=blocked.blocks,
                until=blocked.probe_at,
            )
        elif blocked.lowered:
            _log.warning("pacing.lowered", egress=blocked.egress, per_minute=pace)

    async def report_admitted(self, pool_name: PoolName, assignment_id: AssignmentId) -> None:
        """Note that the bot of an assignment got into its meeting, or into the waiting room."""
        if pool_name not in self.paced_pools:
            return
        try:
            admitted = await report_admitted_bot(
                self.database, pool_name=pool_name, assignment_id=assignment_id
            )
        except DatabaseUnavailable as error:
            _log.warning("pacing.report_lost", pool=pool_name, problem=error.detail)
            return
        if admitted is not None and admitted.closed:
            _log.info("pacing.breaker_closed", egress=admitted.egress)
