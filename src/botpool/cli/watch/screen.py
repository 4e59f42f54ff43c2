"""Draws the screen of `botpool watch` from a snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from botpool.cli.formatting import sanitised, transition
from botpool.cli.tables import pool_figures
from botpool.cli.times import duration
from botpool.client import Change, Pool, Slot

TILES = {
    "idle": ("·", "white on grey30"),
    "deploying": ("D", "black on cyan"),
    "busy": ("B", "black on green"),
    "releasing": ("R", "black on magenta"),
    "error": ("E", "bold white on red"),
    "deleting": ("X", "white on dark_red"),
}
_UNKNOWN = ("?", "reverse")
_CORDONED = {"·": "-"}
"""A cordoned slot has a small letter; these tiles have none."""
_MARGIN = 2
_SPACED_ROWS = 3
_COLUMNS = ("POOL", "SLOTS", "QUEUE", "WAIT", "WARM", "P50", "P95")
_QUEUE_COLUMNS = (2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the pools and of the connection at one time."""

    url: str
    pools: Sequence[Pool] = ()
    slots: Sequence[Slot] = ()
    age_s: float = 0.0
    """The age of pools and slots; waits in the queue have grown by it."""
    problem: str | None = None
    """Why the stream is down; None while it is connected."""
    down_for_s: float = 0.0
    changes: Sequence[Change] = field(default_factory=list)
    """The newest last."""


def screen(snapshot: Snapshot, *, width: int, height: int) -> RenderableType:
    """The whole screen. The oldest changes are left out if the terminal is too small."""
    lines = [_header(snapshot), Text()]
    lines += _pools(snapshot, width)
    lines += [_legend(), Text()]
    room = max(height - len(lines), 0)
    lines += [change_line(each) for each in snapshot.changes[-room:]] if room else []
    if not snapshot.changes:
        lines.append(Text("Changes appear here as they happen. Ctrl-C ends.", style="dim"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Group(*lines[:height])


def _header(snapshot: Snapshot) -> Text:
    header = Text("Botpool", style="bold").append(f"  {snapshot.url}  ", style="dim")
    if snapshot.problem is None:
        return header.append("● live", style="green")
    since = f" for {duration(snapshot.down_for_s)}" if snapshot.down_for_s >= 1 else ""
    return header.append(f"○ not live{since}: {sanitised(snapshot.problem)}", style="bold yellow")


def _pools(snapshot: Snapshot, width: int) -> list[Text]:
    """For each pool a line of figures in aligned columns, then its slots."""
    figures = [pool_figures(pool, snapshot.age_s) for pool in snapshot.pools]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *figures, strict=True)]
    header = "  ".join(f"{name:<{wide}}" for name, wide in zip(_COLUMNS, widths, strict=True))
    lines = [Text(header, style="dim")]
    for pool, (name, *cells) in zip(snapshot.pools, figures, strict=True):
        line = Text(f"{name:<{widths[0]}}  ", style="bold")
        queue_style = "bold yellow" if pool.queue_depth else "not bold"
        for n, (cell, wide) in enumerate(zip(cells, widths[1:], strict=True), 1):
            line.append(f"{cell:<{wide}}  ", queue_style if n in _QUEUE_COLUMNS else "not bold")
        if pool.drained:
            line.append("drained  ", style="yellow")
        if pool.is_paused:
            line.append("paused: bots were blocked  ", style="bold red")
        if not pool.backend_health.ok:
            line.append(f"failing: {sanitised(pool.backend_health.detail)}", style="bold red")
        slots = [slot for slot in snapshot.slots if slot.platform == pool.platform]
        lines += [line, *_tiles(slots, width), Text()]
    return lines


def _tiles(slots: Sequence[Slot], width: int) -> list[Text]:
    """A letter and a colour for each slot, by number; a few slots have spaces between them."""
    room = max(width - 2 * _MARGIN, 2)
    spaced = 2 * len(slots) <= _SPACED_ROWS * room
    per_row = room // 2 if spaced else room
    rows = []
    for begin in range(0, len(slots), per_row):
        row = Text(" " * _MARGIN)
        for slot in slots[begin : begin + per_row]:
            letter, style = TILES.get(slot.status, _UNKNOWN)
            row.append(_CORDONED.get(letter, letter.lower()) if slot.cordoned else letter, style)
            row.append(" " if spaced else "")
        rows.append(row)
    return rows


def _legend() -> Text:
    legend = Text(" " * _MARGIN)
    for status, (letter, style) in TILES.items():
        legend.append(letter, style=style).append(f" {status}  ", style="dim")
    return legend


def change_line(change: Change) -> Text:
    line = Text(f"{change.at.astimezone():%H:%M:%S} ", style="dim")
    line.append(f"{_subject(change):<24} ", style="not dim")
    if change.from_state is not None or change.to_state is not None:
        line.append_text(transition(change.from_state, change.to_state)).append("  ")
    return line.append(sanitised(change.reason), style="dim")


def _subject(change: Change) -> str:
    """The bot, slot or pool that changed, short enough for its column."""
    kind = change.kind.partition(".")[0]
    if kind == "bot" and change.bot_id is not None:
        return f"bot {change.bot_id}"
    if kind == "slot" and change.slot_name is not None:
        return sanitised(change.slot_name).removeprefix("pool-")
    if kind == "pool" and change.platform is not None:
        return f"pool {sanitised(change.platform)}"
    return sanitised(change.kind)
