"""Bars for what takes longer than a moment: on a terminal only, and gone when it is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_WIDTH = 24


class Bar:
    """How far something is. Until that was told once, it only shows that it goes on."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=None, count="")

    def tell(self, done: int, of: int, what: str | None = None) -> None:
        self._progress.update(
            self._task, completed=done, total=of, count=f"{done} of {of}", description=what
        )


@contextmanager
def bar(console: Console, what: str, *, shown: bool = True) -> Iterator[Bar]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_WIDTH),
        TextColumn("{task.fields[count]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
        # Lines that are logged meanwhile go above it; where they go to a file, they go on doing so.
        redirect_stderr=sys.stderr.isatty(),
    ) as progress:
        yield Bar(progress, what)
