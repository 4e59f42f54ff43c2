"""Shows the demo while it runs: a live table on a terminal, a line per change elsewhere."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from botpool.cli.demo.emulated_coolify import SCALE
from botpool.cli.demo.snapshots import Snapshot
from botpool.cli.formatting import cell, list_table, status
from botpool.cli.times import precise_duration
from botpool.domain.states import BotStatus, SlotStatus

_CHANGES_SHOWN = 8
_QUEUED_SHOWN = 10
_BAR = 40


@contextmanager
def display_on(console: Console, url: str) -> Iterator[Callable[[Snapshot], None]]:
    """Yield a function that shows a snapshot."""
    changes = _StatusChanges()
    if not console.is_terminal:

        def print_changes(snapshot: Snapshot) -> None:
            for line in changes.lines(snapshot):
                console.print(line)

        yield print_changes
        return
    latest: deque[Text] = deque(maxlen=_CHANGES_SHOWN)
    with Live(console=console, auto_refresh=False) as live:

        def draw(snapshot: Snapshot) -> None:
            latest.extend(changes.lines(snapshot))
            live.update(_screen(snapshot, url, latest), refresh=True)

        yield draw


class _StatusChanges:
    """Finds the bots whose status changed since the previous snapshot."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def lines(self, snapshot: Snapshot) -> list[Text]:
        found = []
        for bot in snapshot.bots:
            if bot.status == self._known.get(bot.id):
                continue
            self._known[bot.id] = bot.status
            line = Text(f"{snapshot.elapsed_s:5.1f} s  bot {snapshot.name_of(bot.id):<9} ")
            line.append_text(status(bot.status))
            if bot.failure_code:
                line.append(f" {bot.failure_code}")
            elif bot.slot_name and bot.status == BotStatus.DEPLOYING:
                line.append(f" in {bot.slot_name}")
            found.append(line)
        return found


def _screen(snapshot: Snapshot, url: str, changes: Iterable[Text]) -> RenderableType:
    elapsed = precise_duration(snapshot.elapsed_s)
    return Group(
        "",
        Text(f"Botpool demo  {elapsed}  {url}", style="bold"),
        "",
        _slots(snapshot),
        "",
        _queue(snapshot),
        _bots_by_status(snapshot),
        _progress(snapshot),
        *_coolify_counts(snapshot),
        "",
        *changes,
    )


def _slots(snapshot: Snapshot) -> Table:
    bots = {bot.id: bot for bot in snapshot.bots}
    table = list_table()
    for name in ("SLOT", "STATUS", "BOT", "BOT STATUS", "SINCE"):
        table.add_column(name, no_wrap=True, min_width=6)
    for slot in snapshot.slots:
        bot = bots.get(slot.assigned_bot_id or 0)
        since = slot.last_released_at if slot.status == SlotStatus.IDLE else None
        since = since or slot.last_assigned_at or slot.created_at
        # Without its first words, a phase fits into 80 columns.
        phase = slot.phase and slot.phase.replace("waiting_for_", "waits for ")
        table.add_row(
            cell(slot.name),
            status(slot.status, phase),
            cell(snapshot.name_of(bot.id) if bot else None),
            status(bot.status) if bot else "-",
            precise_duration((snapshot.now - since).total_seconds()),
        )
    return table


def _queue(snapshot: Snapshot) -> RenderableType:
    if not snapshot.queue:
        return Text("Queue: empty")
    names = [snapshot.name_of(entry.bot_id) for entry in snapshot.queue[:_QUEUED_SHOWN]]
    return Text(f"Queue: {len(snapshot.queue)}", style="yellow").append(f" ({', '.join(names)})")


def _bots_by_status(snapshot: Snapshot) -> RenderableType:
    counts = Counter(bot.status for bot in snapshot.bots)
    line = Text("Bots: ")
    for name in BotStatus:
        if counts[name]:
            line.append(f" {counts[name]} ").append_text(status(name))
    return line


def _progress(snapshot: Snapshot) -> RenderableType:
    ended = sum(bot.is_final for bot in snapshot.bots)
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(
        "Ended:",
        ProgressBar(total=len(snapshot.sent), completed=ended, width=_BAR),
        f"{ended} of {len(snapshot.sent)}",
    )
    return line


def _coolify_counts(snapshot: Snapshot) -> list[RenderableType]:
    if snapshot.counts is None:
        return []
    pulls = f"{snapshot.counts.pulls} image pull{'' if snapshot.counts.pulls == 1 else 's'}"
    requests = f"at most {snapshot.counts.most_requests} requests a minute"
    return [Text(f"Coolify, {SCALE} times as fast: {pulls}, {requests}")]
