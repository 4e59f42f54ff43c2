"""The last page: what happened, how quick it was, and whether it was as it should be."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from botpool.cli import shapes
from botpool.cli.cells import said, status
from botpool.cli.demo.cast import Part
from botpool.cli.demo.emulated import REQUESTS_PER_MINUTE, SCALE
from botpool.cli.demo.play import Scene, seconds_between
from botpool.cli.demo.verdict import first_from_queue, start_times, successors
from botpool.cli.times import took
from botpool.domain.states import BotStatus


def summary(
    scene: Scene, cast: Sequence[Part], problems: Sequence[str], took_s: float
) -> RenderableType:
    return Group(
        "",
        f"{len(cast)} bots went through {len(scene.slots)} slots in {took(scene.elapsed_s)}.",
        "",
        _ends(scene),
        "",
        _measures(scene),
        "",
        *_judgement(problems, took_s),
    )


def _ends(scene: Scene) -> Table:
    table = _indented()
    done = [bot for bot in scene.bots if bot["status"] == BotStatus.DONE]
    table.add_row(status(BotStatus.DONE), f"{len(done)} bots")
    for bot in scene.bots:
        if bot["status"] != BotStatus.DONE:
            table.add_row(status(bot["status"]), said(_why(scene, bot)))
    return table


def _why(scene: Scene, bot: shapes.Bot) -> str:
    why = f"bot {scene.name_of(bot['id'])}, {bot['failureCode']}: {bot['failureReason']}"
    if scene.parts[bot["id"]].crashes and (later := successors(scene, bot)):
        after_s = seconds_between(bot["endedAt"], later[0]["assignedAt"]) or 0
        why += (
            f" Its slot was cleared and went to bot {scene.name_of(later[0]['id'])}"
            f" {took(after_s)} later."
        )
    return why


def _measures(scene: Scene) -> Table:
    table = _indented()
    table.add_row("First start in a slot", _spread(start_times(scene, cold=True)))
    table.add_row("Later starts", _spread(start_times(scene, cold=False)))
    waits = [
        (seconds, bot["id"])
        for bot in scene.bots
        if (seconds := seconds_between(bot["queuedAt"], bot["assignedAt"])) is not None
    ]
    table.add_row("Had to queue", f"{len(waits)} bots")
    if waits:
        longest_s, bot_id = max(waits)
        table.add_row("Longest wait", f"{took(longest_s)} (bot {scene.name_of(bot_id)})")
    served = first_from_queue(scene)
    if served is not None:
        first = f"bot {scene.name_of(served['id'])} with priority {served['priority']}"
        table.add_row("First from the queue", first)
    if scene.counted is not None:
        cold = len(start_times(scene, cold=True))
        table.add_row("Pulls of the image", f"{scene.counted.pulls}, for {cold} first starts")
        requests = f"{scene.counted.most_requests} at most in one of Coolify's minutes"
        table.add_row("Requests", f"{requests}, {REQUESTS_PER_MINUTE} are allowed")
        table.add_row("Coolify's time", f"{SCALE} times as fast: a second here is a minute there")
    return table


def _judgement(problems: Sequence[str], took_s: float) -> list[Text]:
    if not problems:
        good = "All as expected: every bot reached its end, no slot is stuck, no process is left."
        return [Text(good, style="green"), Text(f"The whole demo took {took(took_s)}.")]
    return [
        Text("Not as expected:", style="bold red"),
        *(Text(f"  {problem}") for problem in problems),
    ]


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return (
        f"{took(median(seconds))} to running "
        f"({len(seconds)} measured, {took(seconds[0])} to {took(seconds[-1])})"
    )


def _indented() -> Table:
    table = Table.grid(padding=(0, 0, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
