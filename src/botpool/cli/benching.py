"""`bench`: what Botpool costs beside PostgreSQL and its peers, measured on this machine."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from botpool.cli.errors import NoSource

_CHECKOUT = Path(__file__).parents[3]


def bench(
    measures: Annotated[
        list[str] | None, typer.Argument(metavar="MEASURE", help="Only these; else all.")
    ] = None,
    small: Annotated[
        bool,
        typer.Option("--small", help="A minute; fails when a ratio is far below its goal."),
    ] = False,
) -> None:
    """Measure Botpool against PostgreSQL and its peers, on this machine.

    Ratios of two sides that take turns on an embedded PostgreSQL of their own; no installation is
    touched. It is part of the source and not of the package; 'make bench' also installs the peers.

    \b
    botpool bench --small
    botpool bench claim_release growth
    """
    if not (_CHECKOUT / "bench" / "__main__.py").exists():
        raise NoSource
    os.chdir(_CHECKOUT)
    arguments = [*(["--small"] if small else []), *(measures or [])]
    os.execv(sys.executable, [sys.executable, "-m", "bench", *arguments])  # noqa: S606
