"""Progress bars on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_WIDTH = 24


Update = Callable[..., None]
"""Shows `done` of `total`, and from then on another title if one is given."""


@contextmanager
def bar(out: Console, title: str, *, shown: bool = True) -> Iterator[Update]:
    """Show a bar on a terminal, and remove it at the end.

    Until the first update, the bar only shows that the work goes on.
    """
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
        task = progress.add_task(title, total=None, count="")

        def update(done: int, total: int, title: str | None = None) -> None:
            count = f"{done} of {total}"
            progress.update(task, completed=done, total=total, count=count, description=title)

        yield update
