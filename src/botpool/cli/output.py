"""Standard output: tables for people, the API's own bytes for programs."""

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_UNBOUNDED = 1000


def console(stream: TextIO | None = None) -> "Console":
    """Plain where nobody sees colours; without a terminal, lines are as long as they need to be.

    With NO_COLOR, rich still writes bold and dim. Those are escape sequences too.
    """
    from rich.console import Console

    stream = stream or sys.stdout
    terminal = stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
    return Console(
        file=stream,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=None if terminal or os.environ.get("COLUMNS") else _UNBOUNDED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(*parts: "RenderableType") -> None:
    out = console()
    for part in parts:
        out.print(part)


def write_json(content: bytes) -> None:
    """The answer as it came. Bytes, so that no encoding of the terminal's changes it."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content + b"\n")
    sys.stdout.buffer.flush()
