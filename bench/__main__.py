"""Run the measures and write a table, `bench/results.json` and pictures: `make bench`."""

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

from bench import docs_table
from bench.figures import Figure
from bench.postgres import conditions, started
from botpool.cli.progress import bar

RESULTS = Path(__file__).with_name("results.json")
MEASURES = (
    "first_calls",
    "hot_slots",
    "claim_release",
    "lone_caller",
    "one_tenant",
    "heartbeats",
    "handover",
    "reconciler",
    "growth",
    "startup",
    "admit_http",
    "peers",
)
SMALL_RUN_S = 47
"""A small run starts no measure after this time, so that it ends within about a minute."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--small",
        action="store_true",
        help="take a minute; fail when a figure misses its tolerance",
    )
    parser.add_argument(
        "measures", nargs="*", help=f"the measures to run, of {', '.join(MEASURES)}; default: all"
    )
    asked = parser.parse_args()
    if unknown := set(asked.measures) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    names = asked.measures or MEASURES
    try:
        measures = {name: import_module(f"bench.measures.{name}") for name in names}
        if not asked.small:
            import_module("bench.pictures")  # Before the run: the run ends with the pictures.
    except ModuleNotFoundError as error:
        parser.error(f"{error.name} is not installed; run 'make bench', which installs it")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=True,
    )
    # A log file has no width of its own: use that of the table.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    before, began = conditions(), time.monotonic()
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder,
        started(Path(folder), small=asked.small) as bench,
        bar(console, "Measuring") as update,
    ):
        for done, (name, module) in enumerate(measures.items()):
            if asked.small and time.monotonic() - began > SMALL_RUN_S:
                console.print(f"{name}: skipped, because the machine is too busy")
                continue
            update(done, len(measures), f"Measuring {name}")
            begun = time.monotonic()
            figures += module.measure(bench)
            console.print(f"{name}: measured in {time.monotonic() - begun:.0f} s")
    _show(console, figures)
    if asked.small:
        alarming = [figure.name for figure in figures if figure.is_alarming]
        if alarming:
            console.print(f"Outside the tolerance: {', '.join(alarming)}.")
        return 1 if alarming else 0
    circumstances = {
        "before": before,
        "after": conditions(),
        "took_s": time.monotonic() - began,
    }
    _write(figures, circumstances, is_complete=not asked.measures)
    return 0


def _show(console: Console, figures: Sequence[Figure]) -> None:
    table = Table("figure", "median", "low … high", "goal", "reached", "tolerance", "details")
    table.columns[0].no_wrap = True
    for figure in figures:
        reached = {True: "yes", False: "no", None: ""}[figure.reached]
        spread = f"{min(figure.rounds):.3g} … {max(figure.rounds):.3g}"
        details = ", ".join(f"{name} {value}" for name, value in figure.detail.items())
        table.add_row(
            figure.name,
            f"{figure.median:.3g}",
            spread,
            figure.goal_text,
            reached,
            figure.tolerance_text,
            details,
        )
    console.print(table)


def _write(
    figures: Sequence[Figure], circumstances: dict[str, object], *, is_complete: bool
) -> None:
    """Write the results; figures that this run did not measure keep their last values."""
    last = (
        json.loads(RESULTS.read_text()) if RESULTS.exists() else {"conditions": {}, "figures": {}}
    )
    known = last["figures"]
    if not is_complete and "note" in last["conditions"]:
        circumstances = {**circumstances, "note": last["conditions"]["note"]}
    fresh = {figure.name: figure.to_json() for figure in figures}
    order = [*fresh, *known] if is_complete else [*known, *fresh]
    shown = {name: fresh.get(name) or known[name] for name in order}
    RESULTS.write_text(json.dumps({"conditions": circumstances, "figures": shown}, indent=2) + "\n")
    docs_table.write(circumstances, shown)
    import_module("bench.pictures").draw(shown)


if __name__ == "__main__":
    sys.exit(main())
