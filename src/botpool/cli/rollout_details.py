"""A rollout with both revisions side by side."""

from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table

from botpool.cli.formatting import cell, detail_table, list_table
from botpool.cli.times import duration, duration_of_ms, time_and_age
from botpool.client import Rollout
from botpool.client.records import Comparison, Tally

_MEASURES = {
    "failed_starts": "failed starts",
    "slow_starts": "slow starts",
    "early_exits": "early exits",
    "not_in_call": "not in call",
}


def rollout(shown: Rollout, now: datetime) -> RenderableType:
    table = detail_table()
    table.add_row("rollout", str(shown.id))
    table.add_row("pool", cell(shown.platform))
    table.add_row("state", cell(shown.state.replace("_", " ")))
    if shown.reason:
        table.add_row("reason", cell(shown.reason))
    if shown.waits_for:
        table.add_row("waits for", cell(shown.waits_for))
    table.add_row("old image", cell(shown.old.image))
    table.add_row("new image", cell(shown.new.image))
    if (shown.old.cpus, shown.old.memory_mb) != (shown.new.cpus, shown.new.memory_mb):
        table.add_row("old limits", f"{shown.old.cpus:g} CPUs, {shown.old.memory_mb} MB")
        table.add_row("new limits", f"{shown.new.cpus:g} CPUs, {shown.new.memory_mb} MB")
    bake = duration(shown.bake_ms / 1000)
    table.add_row("canary", f"{shown.canary_share:.4g} of assignments, at least {bake}")
    table.add_row("tolerance", f"{shown.tolerance * 100:g} percentage points")
    table.add_row("started", time_and_age(shown.started_at, now))
    table.add_row("started by", cell(shown.started_by))
    table.add_row("ended", time_and_age(shown.ended_at, now))
    if shown.comparison is None:
        return table
    sure = f"{shown.comparison.sureness * 100:.1f} % sure that the new revision is not worse"
    table.add_row("comparison", f"{sure}; needs about {shown.comparison.bots_needed} bots")
    return Group(table, "", _side_by_side(shown.comparison))


def _side_by_side(comparison: Comparison) -> Table:
    table = list_table("MEASURE", "OLD", "NEW", "WORSE", "NEEDS", right="OLD NEW WORSE NEEDS")
    old, new = comparison.old, comparison.new
    table.add_row("assignments", str(old.assignments), str(new.assignments))
    for name, before, after in (
        ("p50 to running", old.time_to_running_p50_ms, new.time_to_running_p50_ms),
        ("p95 to running", old.time_to_running_p95_ms, new.time_to_running_p95_ms),
    ):
        table.add_row(name, duration_of_ms(before), duration_of_ms(after))
    for each in comparison.measures:
        table.add_row(
            cell(_MEASURES.get(each.measure, each.measure)),
            _tally(each.old),
            _tally(each.new),
            f"{each.probability_worse * 100:.1f} %",
            f"{each.bots_needed} bots",
        )
    return table


def _tally(tally: Tally) -> str:
    return f"{tally.failures} of {tally.bots}"
