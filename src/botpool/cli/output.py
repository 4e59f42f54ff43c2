"""Standard output: tables for people, the server's JSON for programs."""

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_UNLIMITED = 1000


def console(stream: TextIO | None = None) -> "Console":
    """A console without colours and without a line width, unless the stream is a terminal.

    With NO_COLOR there is no escape sequence at all; rich alone would still write bold and dim.
    """
    from rich.console import Console

    stream = stream or sys.stdout
    terminal = stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
    return Console(
        file=stream,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=None if terminal or os.environ.get("COLUMNS") else _UNLIMITED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(*parts: "RenderableType") -> None:
    out = console()
    for part in parts:
        out.print(part)


def with_next_page(table: "RenderableType", cursor: str | None) -> "RenderableType":
    """The table, followed by the option that continues the list."""
    from rich.console import Group

    return Group(table, f"Next page: --cursor {cursor}") if cursor else table


def write_json(content: bytes) -> None:
    """Write JSON unchanged, independent of the terminal's encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content + b"\n")
    sys.stdout.buffer.flush()
