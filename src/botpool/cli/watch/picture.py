"""What is known at one moment, and how the board shows it. Drawn without asking anybody."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from botpool.cli import shapes
from botpool.cli.cells import change as changed
from botpool.cli.cells import clean
from botpool.cli.tables import share
from botpool.cli.times import of_ms, span
from botpool.client.records import Change

TILES = {
    "idle": ("·", "white on grey30"),
    "deploying": ("D", "black on cyan"),
    "busy": ("B", "black on green"),
    "releasing": ("R", "black on magenta"),
    "error": ("E", "bold white on red"),
    "deleting": ("X", "white on dark_red"),
}
_UNKNOWN = ("?", "reverse")
_CLOSED = {"·": "-"}
"""A cordoned slot has its letter small; this is what has no small one."""
_MARGIN = 2
_SPACED_ROWS = 3
_NAMES = ("POOL", "SLOTS", "QUEUE", "LONGEST", "WARM", "P50", "P95")
_WAITS = (2, 3)
"""Those of them that tell of a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    url: str
    pools: Sequence[shapes.Pool] = ()
    slots: Sequence[shapes.Slot] = ()
    age_s: float = 0.0
    """How old the pools and slots are: waits go on while nothing is asked."""
    lost: str | None = None
    lost_for_s: float = 0.0
    changes: Sequence[Change] = field(default_factory=list)
    """The newest last."""


def board(picture: Picture, *, width: int, height: int) -> RenderableType:
    """All of it, in as many lines as there are: the oldest changes give way."""
    lines = [_head(picture), Text()]
    lines += _pools(picture, width)
    lines += [_legend(), Text()]
    room = max(height - len(lines), 0)
    lines += [change_line(each) for each in picture.changes[-room:]] if room else []
    if not picture.changes:
        lines.append(Text("Changes appear here as they happen. Ctrl-C ends.", style="dim"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Group(*lines[:height])


def _head(picture: Picture) -> Text:
    head = Text("Botpool", style="bold").append(f"  {picture.url}  ", style="dim")
    if picture.lost is None:
        return head.append("● live", style="green")
    since = f" for {span(picture.lost_for_s)}" if picture.lost_for_s >= 1 else ""
    return head.append(f"○ not live{since}: {clean(picture.lost)}", style="bold yellow")


def _figures(pool: shapes.Pool, age_s: float) -> tuple[str, ...]:
    oldest_ms = pool["oldestWaitMs"]
    return (
        clean(pool["platform"]),
        f"{pool['size']}/{pool['maxSize']}",
        str(pool["queueDepth"]),
        "-" if oldest_ms is None else span(oldest_ms / 1000 + age_s),
        share(pool["warmHitRatio"]),
        of_ms(pool["timeToRunningP50Ms"]),
        of_ms(pool["timeToRunningP95Ms"]),
    )


def _pools(picture: Picture, width: int) -> list[Text]:
    """A line of figures for each, one below the other, and its slots."""
    figures = [_figures(pool, picture.age_s) for pool in picture.pools]
    widths = [max(map(len, column)) for column in zip(_NAMES, *figures, strict=True)]
    head = "  ".join(f"{name:<{wide}}" for name, wide in zip(_NAMES, widths, strict=True))
    lines = [Text(head, style="dim")]
    for pool, (name, *cells) in zip(picture.pools, figures, strict=True):
        line = Text(f"{name:<{widths[0]}}  ", style="bold")
        waits = "bold yellow" if pool["queueDepth"] else "not bold"
        for n, (cell, wide) in enumerate(zip(cells, widths[1:], strict=True), 1):
            line.append(f"{cell:<{wide}}  ", style=waits if n in _WAITS else "not bold")
        if pool["drained"]:
            line.append("drained  ", style="yellow")
        if not pool["backendHealth"]["ok"]:
            line.append(f"failing: {clean(pool['backendHealth']['detail'])}", style="bold red")
        slots = [slot for slot in picture.slots if slot["platform"] == pool["platform"]]
        lines += [line, *_tiles(slots, width), Text()]
    return lines


def _tiles(slots: Sequence[shapes.Slot], width: int) -> list[Text]:
    """A letter and a colour for each slot, in the order of their numbers; small if cordoned.

    Apart from each other while they are few.
    """
    room = max(width - 2 * _MARGIN, 2)
    apart = 2 * len(slots) <= _SPACED_ROWS * room
    per_row = room // 2 if apart else room
    rows = []
    for begin in range(0, len(slots), per_row):
        row = Text(" " * _MARGIN)
        for slot in slots[begin : begin + per_row]:
            letter, style = TILES.get(slot["status"], _UNKNOWN)
            row.append(_CLOSED.get(letter, letter.lower()) if slot["cordoned"] else letter, style)
            row.append(" " if apart else "")
        rows.append(row)
    return rows


def _legend() -> Text:
    legend = Text(" " * _MARGIN)
    for status, (letter, style) in TILES.items():
        legend.append(letter, style=style).append(f" {status}  ", style="dim")
    return legend


def change_line(change: Change) -> Text:
    line = Text(f"{change.at.astimezone():%H:%M:%S} ", style="dim")
    line.append(f"{_what(change):<24} ", style="not dim")
    if change.from_state is not None or change.to_state is not None:
        line.append_text(changed(change.from_state, change.to_state)).append("  ")
    return line.append(clean(change.reason), style="dim")


def _what(change: Change) -> str:
    """Whose change it is, short enough for its column."""
    whose = change.kind.partition(".")[0]
    if whose == "bot" and change.bot_id is not None:
        return f"bot {change.bot_id}"
    if whose == "slot" and change.slot_name is not None:
        return clean(change.slot_name).removeprefix("pool-")
    if whose == "pool" and change.platform is not None:
        return f"pool {clean(change.platform)}"
    return clean(change.kind)
