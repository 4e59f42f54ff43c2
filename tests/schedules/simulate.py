"""`make simulate SEEDS=0-999`: run these schedules in parallel and print their violations.

For a single seed, print the schedule step by step.
"""

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import track

from botpool.store.migrator import migrate
from tests.schedules import schedule
from tests.schedules.simulated_database import Server
from tests.support.clock import Clock
from tests.support.postgres import TestPostgres

_USAGE = "SEEDS is a number or a range of numbers: make simulate SEEDS=7, make simulate SEEDS=0-999"
_server: Server


def main(wanted: str) -> int:
    console = Console()
    try:
        first, _, last = wanted.partition("-")
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        console.print(_USAGE, style="red")
        return 2
    began = time.monotonic()
    broken = 0
    with TestPostgres() as postgres:
        for outcome in track(_run_seeds(postgres, seeds), "Schedules", len(seeds), console=console):
            if len(seeds) == 1:
                console.print(*outcome.trace, sep="\n", markup=False, highlight=False)
            if outcome.violations:
                broken += 1
                console.print(f"seed {outcome.seed}:", style="red")
                console.print(*outcome.violations, sep="\n", markup=False, highlight=False)
    console.print(
        f"{len(seeds)} schedules in {time.monotonic() - began:.0f} s, {broken} with violations"
    )
    return 1 if broken else 0


def _run_seeds(postgres: TestPostgres, seeds: range) -> Iterator[schedule.Outcome]:
    """Run the seeds in worker processes, each with a database of its own."""
    workers = min(os.cpu_count() or 1, len(seeds))
    urls: multiprocessing.SimpleQueue[str] = multiprocessing.SimpleQueue()
    for _ in range(workers):
        url = postgres.create_database()
        migrate(url)
        Clock(url).install()
        urls.put(url)
    with multiprocessing.Pool(workers, _connect, (urls,)) as pool:
        yield from pool.imap_unordered(_run, seeds)


def _connect(urls: "multiprocessing.SimpleQueue[str]") -> None:
    global _server
    _server = Server(urls.get())
    asyncio.run(_server.connect())


def _run(seed: int) -> schedule.Outcome:
    return schedule.run(_server, seed)


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
