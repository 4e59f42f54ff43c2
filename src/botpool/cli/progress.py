"""Progress bars on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_WIDTH = 24


class Bar:
    """A progress bar. Until the first update it only shows that the work goes on."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None, count="")

    def update(self, done: int, total: int, title: str | None = None) -> None:
        self._progress.update(
            self._task, completed=done, total=total, count=f"{done} of {total}", description=title
        )


@contextmanager
def bar(out: Console, title: str, *, shown: bool = True) -> Iterator[Bar]:
    """Show a bar on a terminal, and remove it at the end."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_WIDTH),
        TextColumn("{task.fields[count]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns,
        console=out,
        transient=True,
        disable=not (shown and out.is_terminal),
        # Log lines appear above the bar, unless standard error is a file.
        redirect_stderr=sys.stderr.isatty(),
    ) as progress:
        yield Bar(progress, title)
