"""What is seen meanwhile: a live table on a terminal, lines of news elsewhere."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from botpool.cli.cells import listing, said, status
from botpool.cli.demo.emulated import SCALE
from botpool.cli.demo.play import Scene
from botpool.cli.times import moment, took
from botpool.domain.states import FINAL, BotStatus, SlotStatus

_NEWS_SHOWN = 8
_WAITING_SHOWN = 10
_BAR = 40


class View(Protocol):
    def show(self, scene: Scene) -> None: ...


@contextmanager
def view_on(console: Console, url: str) -> Iterator[View]:
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield _Board(live, url)


class News:
    """What changed since the last scene, in words."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, scene: Scene) -> list[Text]:
        found = []
        for bot in scene.bots:
            before = self._known.get(bot["id"])
            if bot["status"] == before:
                continue
            self._known[bot["id"]] = bot["status"]
            line = Text(f"{scene.elapsed_s:5.1f} s  bot {scene.name_of(bot['id']):<9} ")
            line.append_text(status(bot["status"]))
            if bot["failureCode"]:
                line.append(f" {bot['failureCode']}")
            elif bot["slotName"] and bot["status"] == BotStatus.DEPLOYING:
                line.append(f" in {bot['slotName']}")
            found.append(line)
        return found


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._news = News()

    def show(self, scene: Scene) -> None:
        for line in self._news.of(scene):
            self._console.print(line)


class _Board:
    def __init__(self, live: Live, url: str) -> None:
        self._live = live
        self._url = url
        self._news = News()
        self._lines: list[Text] = []

    def show(self, scene: Scene) -> None:
        self._lines = (self._lines + self._news.of(scene))[-_NEWS_SHOWN:]
        board = Group(
            "",
            Text(f"Botpool demo  {took(scene.elapsed_s)}  {self._url}", style="bold"),
            "",
            slots_table(scene),
            "",
            queue_line(scene),
            bots_line(scene),
            progress(scene),
            *platform_lines(scene),
            "",
            *self._lines,
        )
        self._live.update(board, refresh=True)


def slots_table(scene: Scene) -> Table:
    bots = {bot["id"]: bot for bot in scene.bots}
    table = listing()
    for name in ("SLOT", "STATUS", "BOT", "BOT'S STATUS", "FOR"):
        table.add_column(name, no_wrap=True, min_width=6)
    for slot in scene.slots:
        bot = bots.get(slot["assignedBotId"] or 0)
        since = slot["lastReleasedAt"] if slot["status"] == SlotStatus.IDLE else None
        since = since or slot["lastAssignedAt"] or slot["createdAt"]
        table.add_row(
            said(slot["name"]),
            status(slot["status"], _words(slot["phase"])),
            said(scene.name_of(bot["id"]) if bot else None),
            status(bot["status"]) if bot else "-",
            took((scene.now - moment(since)).total_seconds()),
        )
    return table


def _words(phase: str | None) -> str | None:
    """Short enough for a row of 80 columns."""
    return phase and phase.replace("waiting_for_", "waits for ")


def queue_line(scene: Scene) -> RenderableType:
    if not scene.queue:
        return Text("Queue: empty")
    waiting = [scene.name_of(entry["botId"]) for entry in scene.queue[:_WAITING_SHOWN]]
    return Text(f"Queue: {len(scene.queue)}", style="yellow").append(f" ({', '.join(waiting)})")


def progress(scene: Scene) -> RenderableType:
    """How many of those that were sent have come to their end."""
    ended = sum(bot["status"] in FINAL for bot in scene.bots)
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(
        "Ended:",
        ProgressBar(total=len(scene.parts), completed=ended, width=_BAR),
        f"{ended} of {len(scene.parts)}",
    )
    return line


def platform_lines(scene: Scene) -> list[RenderableType]:
    """What the emulated Coolify says of itself, if it is there."""
    if scene.counted is None:
        return []
    counted = scene.counted
    pulls = f"{counted.pulls} pull{'' if counted.pulls == 1 else 's'} of the image"
    requests = f"at most {counted.most_requests} requests a minute"
    return [Text(f"Coolify, {SCALE} times as fast: {pulls}, {requests}")]


def bots_line(scene: Scene) -> RenderableType:
    counts = Counter(bot["status"] for bot in scene.bots)
    line = Text("Bots: ")
    for name in BotStatus:
        if counts[name]:
            line.append(f" {counts[name]} ").append_text(status(name))
    return line
