"""The planner's result as the HTTP API and the command line show it."""

from datetime import timedelta
from typing import Any

from botpool.domain.plan.policies import Plan, PolicyResult
from botpool.domain.warm import Warm
from botpool.domain.warm_target import describe_days


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON of the API."""
    until = plan.record.since + timedelta(seconds=plan.record.duration_s)
    return {
        "platform": plan.pool.name,
        "sinceAt": plan.record.since.isoformat(),
        "untilAt": until.isoformat(),
        "bots": len(plan.record.bots),
        "slo": plan.goal.slo,
        "withinMs": round(plan.goal.within_s * 1000),
        "policies": [_policy(plan, result) for result in plan.results],
        "recommended": plan.recommended.name if plan.recommended else None,
        "advice": advice(plan),
    }


def _policy(plan: Plan, result: PolicyResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "maxSize": result.max_size,
        "onTimeShare": result.on_time_share,
        "p50Ms": round(result.p50_s * 1000),
        "p95Ms": round(result.p95_s * 1000),
        "p99Ms": round(result.p99_s * 1000),
        "longestQueue": result.longest_queue,
        "idleSlotHoursPerDay": _rounded(result.idle_slot_h_per_day),
        "hotSlotHoursPerDay": _rounded(result.hot_slot_h_per_day),
        "meetsGoal": result.meets_goal,
        "settings": None if result.warm is None else settings_text(plan, result),
    }


def _rounded(hours: float | None) -> float | None:
    return None if hours is None else round(hours, 1)


def settings_text(plan: Plan, result: PolicyResult) -> str:
    """Return the settings of a policy, to paste into botpool.toml."""
    warm = result.warm or Warm()
    lines = []
    if result.max_size != plan.pool.max_size:
        lines += [f"[pools.{plan.pool.name}]", f"max_size = {result.max_size}", ""]
    lines += [f"[pools.{plan.pool.name}.warm]", f"hot = {warm.hot}"]
    if warm.idle:
        lines.append(f"idle = {warm.idle}")
    if warm.ahead_of_schedule:
        lines.append("ahead_of_schedule = true")
    if warm.windows:
        lines.append("windows = [")
        for window in warm.windows:
            idle = f", idle = {window.idle}" if window.idle else ""
            lines.append(
                f'  {{days = "{describe_days(window.days)}", from = "{window.starts}", '
                f'to = "{window.ends}", timezone = "{window.timezone}", hot = {window.hot}{idle}}},'
            )
        lines.append("]")
    return "\n".join(lines)


def advice(plan: Plan) -> str:
    """Say in a sentence what to do."""
    goal = f"{plan.goal.slo:.1%} of the bots within {plan.goal.within_s:g} s"
    if not plan.record.bots:
        return "The record has no bots in this period: replay more of it, or try --demo."
    if plan.recommended is None:
        return (
            f"No policy starts {goal}. The start of a container that waits takes longer, or bots "
            "wait for a slot: allow more time, or raise max_size."
        )
    if plan.recommended.name == "as configured":
        return f"Keep your settings: they start {goal} with the fewest hot slot hours."
    return f"To start {goal} with the fewest hot slot hours: {plan.recommended.name}."
