"""Accepts of bots by standbys, batched: the standbys of a burst share one transaction.

Each accept is fenced by its own assignment, run, container and phase, so one that comes too late
leaves the others alone. The transaction also reads the bots for the answers. After a crash before
the commit, the agents repeat their calls; after the commit, the same boot gets the same answer.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.agent_views import AgentView
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.states import SlotStatus
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher
from botpool.store.assignments import get_agent_assignment
from botpool.store.database import Database
from botpool.store.standbys import AcceptedBot, accept_assignments

_MAX_BATCH = 64
"""A larger batch slows each of its items: the statement's joins are planned for a few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The accept of an assignment's bot by a boot, as requested."""

    assignment_id: AssignmentId
    run_id: AssignmentId
    container_id: ContainerId
    boot_id: str | None


class Accepts:
    """Accepts bots in batches."""

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        outcome: DeploymentOutcome,
        *,
        max_duration_s: float,
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._outcome = outcome
        self._max_duration_s = max_duration_s
        self._accepts: Batcher[Accept, AgentView | None] = Batcher(
            "accept bots",
            self._accept_batch,
            max_batch=_MAX_BATCH,
            max_in_flight=2,
            # Of two boots, the first in order of arrival accepts.
            distinct_by=lambda accept: accept.assignment_id,
            is_idle=database.is_idle,
        )

    async def accept(self, accept: Accept) -> AgentView | None:
        """Accept the bot if its hand-over lasts, and return it as it is after that.

        None if the database does not know the assignment.
        """
        return await self._accepts.submit(accept)

    async def _accept_batch(self, accepts: Sequence[Accept]) -> list[AgentView | None]:
        assignment_ids = [each.assignment_id for each in accepts]
        changes = accept_assignments.statement(
            assignment_ids=assignment_ids,
            run_ids=[each.run_id for each in accepts],
            container_ids=[each.container_id for each in accepts],
            boot_ids=[each.boot_id for each in accepts],
            max_duration_s=self._max_duration_s,
        )
        bots = [get_agent_assignment.statement(assignment_id=each) for each in assignment_ids]
        await self._database.commit([changes, *bots])
        # A later callback, because an exception here would make the batcher repeat the committed
        # statement. It still runs before the callers get their results.
        asyncio.get_running_loop().call_soon(self._report, changes.result)
        return [bot.result for bot in bots]

    def _report(self, accepted: Sequence[AcceptedBot]) -> None:
        for each in accepted:
            self._outcome.protect_call(each)
            event_log.slot_transition(
                each,
                old=SlotStatus.DEPLOYING,
                new=SlotStatus.BUSY,
                reason=reasons.ACCEPTED_BY_STANDBY,
            )
            self._metrics.hot_handover(each.pool_name, accepted=True, after_s=each.deploying_s)
