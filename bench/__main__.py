"""`make bench`: every measure in turn, as a table, as `bench/results.json` and as pictures."""

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

from bench import page
from bench.figures import Figure
from bench.ground import conditions, prepared
from botpool.cli.progress import bar

RESULTS = Path(__file__).with_name("results.json")
MEASURES = (
    "claim_release",
    "lone_caller",
    "heartbeats",
    "handover",
    "reconciler",
    "growth",
    "startup",
    "admit_http",
    "peers",
)
ENOUGH_S = 47
"""A small run begins nothing after that: on a busy machine it is still over in a minute."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a minute; fails far below a goal")
    parser.add_argument("measures", nargs="*", help=f"some of: {', '.join(MEASURES)}")
    asked = parser.parse_args()
    if unknown := set(asked.measures) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    names = asked.measures or MEASURES
    try:
        measures = {name: import_module(f"bench.measures.{name}") for name in names}
    except ModuleNotFoundError as error:
        parser.error(f"{error.name} is not installed; 'make bench' installs what is compared")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=True,
    )
    # Into a file or a log as wide as the table is.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    before, began = conditions(), time.monotonic()
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder,
        prepared(Path(folder), small=asked.small) as ground,
        bar(console, "Measuring") as shown,
    ):
        for done, (name, module) in enumerate(measures.items()):
            if asked.small and time.monotonic() - began > ENOUGH_S:
                console.print(f"{name}: left out, the machine is too busy")
                continue
            shown.update(done, len(measures), f"Measuring {name}")
            begun = time.monotonic()
            figures += module.measure(ground)
            console.print(f"{name}: measured in {time.monotonic() - begun:.0f} s")
    _show(console, figures)
    if asked.small:
        alarming = [figure.name for figure in figures if figure.is_alarming]
        if alarming:
            console.print(f"Worse than is tolerated: {', '.join(alarming)}.")
        return 1 if alarming else 0
    told = {"before": before, "after": conditions(), "took_s": time.monotonic() - began}
    _write(figures, told, all_of_them=not asked.measures)
    return 0


def _show(console: Console, figures: Sequence[Figure]) -> None:
    table = Table("figure", "median", "low … high", "goal", "reached", "tolerated", "beside it")
    table.columns[0].no_wrap = True
    for figure in figures:
        reached = {True: "yes", False: "no", None: ""}[figure.reached]
        spread = f"{min(figure.rounds):.3g} … {max(figure.rounds):.3g}"
        beside = ", ".join(f"{name} {value}" for name, value in figure.detail.items())
        table.add_row(
            figure.name,
            f"{figure.median:.3g}",
            spread,
            figure.wanted,
            reached,
            figure.tolerated,
            beside,
        )
    console.print(table)


def _write(
    figures: Sequence[Figure], circumstances: dict[str, object], *, all_of_them: bool
) -> None:
    """What was not measured this time keeps its last figures; after a few, in the old order."""
    known = json.loads(RESULTS.read_text())["figures"] if RESULTS.exists() else {}
    fresh = {figure.name: figure.to_json() for figure in figures}
    order = [*fresh, *known] if all_of_them else [*known, *fresh]
    shown = {name: fresh.get(name) or known[name] for name in order}
    RESULTS.write_text(json.dumps({"conditions": circumstances, "figures": shown}, indent=2) + "\n")
    page.write(circumstances, shown)
    import_module("bench.pictures").draw(shown)


if __name__ == "__main__":
    sys.exit(main())
