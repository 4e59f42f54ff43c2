"""`botpool plan`: how many slots to keep ready, from the record of a pool."""

import inspect
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botpool.cli import output
from botpool.cli.durations import ReplayOption, WithinOption
from botpool.cli.errors import UsageError
from botpool.cli.server_command import with_client_and_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client, Plan

_PoolArgument = Annotated[
    str | None, typer.Argument(metavar="PLATFORM", help="The pool's name, such as google-meet.")
]
_DemoOption = Annotated[
    bool, typer.Option("--demo", help="Plan for a synthetic week of meetings; needs no server.")
]
_SloOption = Annotated[
    float,
    typer.Option(min=0.01, max=1.0, help="The share of bots that should be on time."),
]
_TimezoneOption = Annotated[
    str, typer.Option(metavar="NAME", help="The time zone of the windows, such as Europe/Berlin.")
]


@with_client_and_json
def _plan_from_record(
    client: "Client",
    platform: _PoolArgument = None,
    replay: ReplayOption = "7d",  # type: ignore[assignment] # typer parses it
    slo: _SloOption = 0.999,
    within: WithinOption = "5s",  # type: ignore[assignment] # typer parses it
    timezone: _TimezoneOption = "UTC",
) -> "RenderableType":
    """Replay a pool's bots, and recommend warm floors.

    A replay uses the admission rules, the arrivals and the times that the pool recorded. For each
    policy the table shows the share of bots that are on time, their waits from the request to a
    running container, the longest queue, and the idle and hot slot hours per day.

    \b
    botpool plan --demo
    botpool plan google-meet --replay 7d --slo 0.999 --within 5s
    """
    if platform is None:
        raise UsageError("Name a pool, such as google-meet, or use --demo.")
    from botpool.cli.progress import bar

    with bar(output.console(sys.stderr), f"Replaying the bots of {platform}"):
        found = client.plan(platform, replay_s=replay, slo=slo, within_s=within, timezone=timezone)
    return _shown(found)


def _plan_demo(*, slo: float, within: float, timezone: str, as_json: bool) -> None:
    """Plan for the synthetic week, in this process."""
    from botpool.cli.progress import bar
    from botpool.client.records import Plan, read
    from botpool.domain.plan.demo_week import demo_week
    from botpool.domain.plan.document import plan_document
    from botpool.domain.plan.policies import Goal, Planner
    from botpool.domain.warm_target import check_time_zone

    try:
        check_time_zone(timezone)
    except ValueError as error:
        raise UsageError(f"--timezone {error}") from None
    record, pool = demo_week()
    with bar(output.console(sys.stderr), "Replaying a synthetic week") as update:
        goal = Goal(slo=slo, within_s=within)
        plan = Planner(record, pool, goal, timezone=timezone, progress=update).plan()
    document = {"plan": plan_document(plan)}
    if as_json:
        output.write_json(json.dumps(document).encode())
    else:
        output.show(_shown(read(Plan, document["plan"])))


def _shown(plan: "Plan") -> "RenderableType":
    from rich.console import Group

    from botpool.cli import tables
    from botpool.cli.formatting import sanitised

    days = (plan.until_at - plan.since_at).total_seconds() / 86_400
    title = f"{plan.bots} bots of {sanitised(plan.platform)} in {days:.1f} days, replayed:"
    chosen = [policy for policy in plan.policies if policy.name == plan.recommended]
    settings = [each.settings for each in chosen if each.settings and each.name != "as configured"]
    return Group(
        title, "", tables.plan(plan), "", f"* {plan.advice}", *(["", *settings] if settings else [])
    )


def _command() -> Any:
    """Add `--demo`, which needs neither a server nor a key, to the command."""

    def plan(**arguments: Any) -> None:
        if not arguments.pop("demo"):
            _plan_from_record(**arguments)
            return
        names = ("slo", "within", "timezone", "as_json")
        _plan_demo(**{name: arguments[name] for name in names})

    demo = inspect.Parameter(
        "demo", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_DemoOption
    )
    parameters = [*inspect.signature(_plan_from_record).parameters.values(), demo]
    plan.__doc__ = _plan_from_record.__doc__
    plan.__annotations__ = {each.name: each.annotation for each in parameters}
    plan.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return plan


plan = _command()
