"""`botpool import meeboter`: moves the slots and queued bots of Meeboter's pool to Botpool."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botpool.cli import output
from botpool.cli.options import ConfigOption, DataDirOption

if TYPE_CHECKING:
    from rich.table import Table

    from botpool.engine.operations.meeboter_import import ImportPlan, MeeboterImport, Outcome
    from botpool.settings import Settings

_WAIT_INTERVAL_S = 5.0
_NEXT = "Nothing was changed. To make these changes, run the command again with --apply."


def meeboter(
    database: Annotated[
        str,
        typer.Option(
            envvar="MEEBOTER_DATABASE_URL", metavar="URL", help="The URL of Meeboter's database."
        ),
    ],
    coolify: Annotated[
        bool,
        typer.Option("--coolify", help="Also take over the slots and their Coolify applications."),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the changes. Without it, they are only shown.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="With --apply: go on until the live bots have ended."),
    ] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Move the slots and queued bots of Meeboter's pool here.

    The command needs the settings of 'serve'. It shows the changes; with --apply it makes them. It
    can be interrupted and repeated: what has moved stays moved. Live bots end where they are, and
    a later run takes over their slots. Let Meeboter accept no new bots before you apply.

    \b
    botpool import meeboter --database postgresql://…/meeboter --coolify
    botpool import meeboter --database postgresql://…/meeboter --coolify --apply --wait
    """
    import asyncio

    from botpool import logs
    from botpool.cli.errors import UsageError
    from botpool.settings import load_settings

    logs.configure()
    if wait and not apply:
        raise UsageError("--wait: needs --apply, because it takes over slots when their bots end.")
    settings = load_settings(config, {"data_dir": data_dir})
    failed = asyncio.run(
        _run(settings, database, coolify=coolify, apply=apply, wait=wait, as_json=as_json)
    )
    raise typer.Exit(1 if failed else 0)


async def _run(
    settings: "Settings", url: str, *, coolify: bool, apply: bool, wait: bool, as_json: bool
) -> bool:
    """Plan and, if asked, apply; returns whether a change failed."""
    from botpool.app import meeboter_import
    from botpool.cli.database import database_url, installation_of
    from botpool.store.data_dir import DataDir

    with database_url(settings) as own_url:
        embedded_url = own_url if settings.database.embedded else None
        installed = installation_of(settings, DataDir.open(settings.data_dir), embedded_url)
        async with meeboter_import(
            settings, installed, meeboter_url=url, with_coolify=coolify, apply=apply
        ) as move:
            plan = await move.plan()
            outcomes = await _apply(move, plan, wait=wait) if apply else []
            remaining = (await move.plan()).live if apply else plan.live
    if as_json:
        output.write_json(_json(plan, outcomes, applied=apply))
    elif apply:
        output.show(_outcome_table(outcomes), _summary(outcomes, remaining))
    else:
        output.show(_plan_table(plan), _plan_summary(plan, coolify=coolify))
    return any(not outcome.succeeded for outcome in outcomes)


async def _apply(move: "MeeboterImport", plan: "ImportPlan", *, wait: bool) -> "list[Outcome]":
    import asyncio

    outcomes: list[Outcome] = []
    with output.console(sys.stderr).status("Moving …") as status:
        while True:
            total = len(outcomes) + plan.changes
            async for outcome in move.apply(plan):
                outcomes.append(outcome)
                status.update(f"Moving … {len(outcomes)} of {total}: {outcome.subject}")
            if not (wait and plan.live):
                return outcomes
            status.update(f"Waiting for the end of {plan.live} live bots of Meeboter …")
            await asyncio.sleep(_WAIT_INTERVAL_S)
            plan = await move.plan()


def _plan_table(plan: "ImportPlan") -> "Table":
    from botpool.cli.formatting import cell, list_table

    table = list_table("MEEBOTER", "NAME", "STEP", "DETAIL", wrap="DETAIL")
    for slot in plan.slots:
        name = slot.slot.slot_name
        table.add_row(cell(f"slot {slot.slot.id}"), cell(name), cell(slot.step), cell(slot.detail))
    for bot in plan.bots:
        name = bot.bot.display_name or ""
        table.add_row(cell(f"bot {bot.bot.bot_id}"), cell(name), cell(bot.step), cell(bot.detail))
    for moving in plan.moving:
        detail = "an interrupted import took it off Meeboter's queue"
        table.add_row(
            cell(f"bot {moving.bot_id}"), cell(moving.display_name), cell("queue"), cell(detail)
        )
    return table


def _plan_summary(plan: "ImportPlan", *, coolify: bool) -> str:
    text = f"{plan.changes} changes. {_NEXT}" if plan.changes else "There is nothing to move."
    if not coolify:
        text += " Slots are left alone without --coolify."
    return text + _live(plan.live)


def _outcome_table(outcomes: "list[Outcome]") -> "Table":
    from rich.text import Text

    from botpool.cli.formatting import cell, list_table

    table = list_table("MEEBOTER", "RESULT", wrap="RESULT")
    for each in outcomes:
        result = cell(each.text) if each.succeeded else Text(each.text, style="bold red")
        table.add_row(cell(each.subject), result)
    return table


def _summary(outcomes: "list[Outcome]", live: int) -> str:
    moved = sum(outcome.succeeded for outcome in outcomes)
    failed = len(outcomes) - moved
    if not outcomes:
        text = "Nothing had to be moved."
    else:
        text = f"{moved} changes made" + (f", {failed} failed." if failed else ".")
    return text + _live(live)


def _live(live: int) -> str:
    if not live:
        return ""
    return (
        f" {live} slots wait for the end of a live bot: run the command again later, or use "
        "--apply --wait."
    )


def _json(plan: "ImportPlan", outcomes: "list[Outcome]", *, applied: bool) -> bytes:
    import json
    from dataclasses import asdict

    def row(kind: str, old_id: int, step: str, detail: str) -> dict[str, Any]:
        return {"kind": kind, "id": old_id, "step": step, "detail": detail}

    body = {
        "applied": applied,
        "plan": [
            *(row("slot", each.slot.id, each.step, each.detail) for each in plan.slots),
            *(row("bot", each.bot.bot_id, each.step, each.detail) for each in plan.bots),
            *(row("bot", each.bot_id, "queue", "interrupted") for each in plan.moving),
        ],
        "outcomes": [asdict(each) for each in outcomes],
    }
    return json.dumps(body, ensure_ascii=False).encode()
