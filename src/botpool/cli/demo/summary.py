"""The summary at the end of the demo: results, times and problems."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from botpool.cli.demo.checks import first_from_queue, start_times, successors
from botpool.cli.demo.emulated_coolify import REQUESTS_PER_MINUTE, SCALE
from botpool.cli.demo.scenario import DemoBot
from botpool.cli.demo.snapshots import Snapshot, seconds_between
from botpool.cli.formatting import cell, status
from botpool.cli.times import precise_duration
from botpool.client import Bot
from botpool.domain.states import BotStatus


def summary(
    last: Snapshot, sent: Sequence[DemoBot], problems: Sequence[str], took_s: float
) -> RenderableType:
    elapsed = precise_duration(last.elapsed_s)
    return Group(
        "",
        f"{len(sent)} bots ran in {len(last.slots)} slots in {elapsed}.",
        "",
        _results(last),
        "",
        _measurements(last),
        "",
        *_conclusion(problems, took_s),
    )


def _results(last: Snapshot) -> Table:
    table = _indented_table()
    done = [bot for bot in last.bots if bot.status == BotStatus.DONE]
    table.add_row(status(BotStatus.DONE), f"{len(done)} bots")
    for bot in last.bots:
        if bot.status != BotStatus.DONE:
            table.add_row(status(bot.status), cell(_failure(last, bot)))
    return table


def _failure(last: Snapshot, bot: Bot) -> str:
    text = f"bot {last.name_of(bot.id)}, {bot.failure_code}: {bot.failure_reason}"
    if last.sent[bot.id].crashes and (later := successors(last, bot)):
        after = precise_duration(seconds_between(bot.ended_at, later[0].assigned_at) or 0)
        text += f" Bot {last.name_of(later[0].id)} got its slot {after} later."
    return text


def _measurements(last: Snapshot) -> Table:
    table = _indented_table()
    table.add_row("First start in a slot", _range(start_times(last, cold=True)))
    table.add_row("Later starts", _range(start_times(last, cold=False)))
    waits = [
        (seconds, bot.id)
        for bot in last.bots
        if (seconds := seconds_between(bot.queued_at, bot.assigned_at)) is not None
    ]
    table.add_row("Queued", f"{len(waits)} bots")
    if waits:
        longest_s, bot_id = max(waits)
        table.add_row("Longest wait", f"{precise_duration(longest_s)} (bot {last.name_of(bot_id)})")
    if (first := first_from_queue(last)) is not None:
        name = f"bot {last.name_of(first.id)} with priority {first.priority}"
        table.add_row("First from the queue", name)
    if last.counts is not None:
        cold = len(start_times(last, cold=True))
        table.add_row("Image pulls", f"{last.counts.pulls}, for {cold} first starts")
        requests = f"at most {last.counts.most_requests} per emulated minute"
        table.add_row("Coolify requests", f"{requests}; {REQUESTS_PER_MINUTE} are allowed")
        table.add_row("Coolify speed", f"{SCALE} times: a minute passes in a second")
    return table


def _conclusion(problems: Sequence[str], took_s: float) -> list[Text]:
    if not problems:
        good = "All as expected: every bot ended, every slot is idle, no process is left."
        return [Text(good, style="green"), Text(f"The demo took {precise_duration(took_s)}.")]
    return [
        Text("Not as expected:", style="bold red"),
        *(Text(f"  {problem}") for problem in problems),
    ]


def _range(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    shortest, longest = precise_duration(seconds[0]), precise_duration(seconds[-1])
    return (
        f"{precise_duration(median(seconds))} to running "
        f"({len(seconds)} measured, {shortest} to {longest})"
    )


def _indented_table() -> Table:
    table = Table.grid(padding=(0, 0, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
