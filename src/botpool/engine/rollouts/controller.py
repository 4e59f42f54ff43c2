"""Takes the steps of rollouts: pull the image, compare the revisions, promote or roll back.

The state is rows. A lease keeps replicas from comparing at the same time; each transition checks
the state of the row, so a repeated or late step changes nothing. After a crash the step is due
again a few seconds later, in any replica.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from botpool.domain import reasons
from botpool.domain.rollouts import comparison as measures
from botpool.domain.rollouts.comparison import (
    ArmFigures,
    Comparison,
    Decision,
    Measure,
    Tally,
    Verdict,
    compare,
    decide,
)
from botpool.domain.rollouts.records import RolloutState
from botpool.engine.rollouts.rollout_ending import RolloutEnding
from botpool.engine.service import Service
from botpool.store.pools import lock_pool
from botpool.store.rollouts import (
    LeasedRollout,
    RevisionOutcomes,
    compare_revisions,
    lease_rollouts,
    note_rollout,
    record_comparison,
    start_pull,
)
from botpool.store.standbys import add_slots, stop_standbys

INTERVAL_S = 5.0
"""How often a rollout is due."""
_LEASE_S = 4.0
MAX_ASSIGNMENTS = 20_000
"""How many of a pool's newest assignments a comparison reads."""
_MAX_PULL_FAILURES = 3
_NONE = ArmFigures(assignments=0, time_to_running_p50_ms=None, time_to_running_p95_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutController(Service):
    """Runs the rollouts of all pools."""

    ending: RolloutEnding
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an operator started a rollout."""

    async def run(self) -> None:
        """Take the next step of each rollout that is due."""
        for rollout in await lease_rollouts(self.database, interval_s=_LEASE_S):
            if not rollout.has_old_revision:
                await self._end(
                    rollout, RolloutState.ROLLED_BACK, reasons.SETTINGS_CHANGED_REVISION
                )
            elif rollout.state is RolloutState.PULLING:
                await self._pull(rollout)
            else:
                await self._compare(rollout)

    async def _pull(self, rollout: LeasedRollout) -> None:
        """Start the pull of the image if none runs; give up after some failures."""
        if rollout.pull_runs:
            return
        if rollout.pull_failures >= _MAX_PULL_FAILURES:
            reason = reasons.pull_failed(rollout.pull_failures, rollout.waits_for)
            await self._end(rollout, RolloutState.ROLLED_BACK, reason)
            return
        if rollout.bots_wait:
            await self._note(rollout, reasons.BOTS_BEFORE_PULL)
            return
        add = add_slots.statement(pool_name=rollout.pool_name, slots=1)
        start = start_pull.statement(rollout_id=rollout.rollout_id)
        lock = lock_pool.statement(pool_name=rollout.pool_name)
        await self.database.commit([lock, *([] if rollout.has_free_slot else [add]), start])
        if start.result is not None:
            self.wakeups.wake_reconcilers()
        elif rollout.standby_stops:
            await self._note(rollout, reasons.STANDBY_BEFORE_PULL)
        elif rollout.has_standby:
            await self._stop_standby(rollout)
        else:
            await self._note(rollout, reasons.FREE_SLOT_FOR_PULL)

    async def _stop_standby(self, rollout: LeasedRollout) -> None:
        """Stop one standby of a pool that has no other slot for the pull.

        No standby starts in the pool before the pull does (`start_standbys.sql`). After a crash,
        the next step finds the standby, the stopping slot or the free one.
        """
        stop = stop_standbys.statement(
            pool_name=rollout.pool_name, surplus=1, reason=reasons.FREES_SLOT_FOR_PULL
        )
        await self.database.commit([lock_pool.statement(pool_name=rollout.pool_name), stop])
        await self._note(rollout, reasons.STANDBY_BEFORE_PULL)
        self.wakeups.wake_reconcilers()

    async def _note(self, rollout: LeasedRollout, waits_for: str) -> None:
        await note_rollout(self.database, rollout_id=rollout.rollout_id, waits_for=waits_for)

    async def _compare(self, rollout: LeasedRollout) -> None:
        """Compare both revisions, and promote or roll back if the comparison is sure."""
        found = await compare_revisions(
            self.database,
            rollout_id=rollout.rollout_id,
            slow_factor=measures.SLOW_FACTOR,
            slow_margin_s=measures.SLOW_MARGIN_S,
            min_starts=measures.MIN_STARTS_FOR_P95,
            early_exit_s=measures.EARLY_EXIT_S,
            max_assignments=MAX_ASSIGNMENTS,
        )
        # The integrals take tens of milliseconds, which the event loop does not wait for.
        comparison, decision = await asyncio.to_thread(_decide, found, rollout)
        match decision.verdict:
            case Verdict.PROMOTE:
                await self._end(rollout, RolloutState.PROMOTED, decision.reason, comparison)
            case Verdict.ROLL_BACK:
                await self._end(rollout, RolloutState.ROLLED_BACK, decision.reason, comparison)
            case Verdict.WAIT:
                await record_comparison(
                    self.database,
                    rollout_id=rollout.rollout_id,
                    comparison=json.dumps(comparison.to_json()),
                    waits_for=decision.reason,
                    max_assignments=MAX_ASSIGNMENTS,
                )

    async def _end(
        self,
        rollout: LeasedRollout,
        state: RolloutState,
        reason: str,
        comparison: Comparison | None = None,
    ) -> None:
        """End the rollout, unless an operator has changed its state since it was leased."""
        await self.ending.end(
            rollout.rollout_id,
            rollout.pool_name,
            state,
            reason=reason,
            from_states=[rollout.state],
            comparison=comparison,
        )


def _decide(
    found: Sequence[RevisionOutcomes], rollout: LeasedRollout
) -> tuple[Comparison, Decision]:
    comparison = _comparison_of(found, rollout)
    bake_left_s = rollout.bake_s - (rollout.canary_s or 0.0)
    return comparison, decide(comparison, tolerance=rollout.tolerance, bake_left_s=bake_left_s)


def _comparison_of(found: Sequence[RevisionOutcomes], rollout: LeasedRollout) -> Comparison:
    by_arm = {each.is_new: each for each in found}
    old, new = by_arm.get(False), by_arm.get(True)
    tallies = {
        Measure(measure): (_tally(old, names), _tally(new, names)) for measure, names in _COLUMNS
    }
    return Comparison(
        old=_figures(old),
        new=_figures(new),
        measures=[
            compare(measure, *pair, share=rollout.share, tolerance=rollout.tolerance)
            for measure, pair in tallies.items()
        ],
    )


_COLUMNS = (
    (Measure.FAILED_STARTS, ("failed_starts", "starts_decided", "starts_pending")),
    (Measure.SLOW_STARTS, ("slow_starts", "speeds_decided", "speeds_pending")),
    (Measure.EARLY_EXITS, ("early_exits", "exits_decided", "exits_pending")),
    (Measure.NOT_IN_CALL, ("not_in_call", "calls_decided", "calls_pending")),
)


def _tally(found: RevisionOutcomes | None, names: tuple[str, str, str]) -> Tally:
    failures, bots, pending = (getattr(found, name, 0) for name in names)
    return Tally(failures=failures, bots=bots, pending=pending)


def _figures(found: RevisionOutcomes | None) -> ArmFigures:
    if found is None:
        return _NONE
    return ArmFigures(
        assignments=found.assignments,
        time_to_running_p50_ms=found.p50_ms,
        time_to_running_p95_ms=found.p95_ms,
    )
