"""`make bench`: a claim and a release, against PostgreSQL doing only their two statements."""

import asyncio
import json
import logging
import statistics
import tempfile
from pathlib import Path

import structlog
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import bare, pooled
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from botpool.store.migrations import migrate

RESULTS = Path(__file__).with_name("results.json")
CALLERS = 32
ROUNDS = 5
SECONDS = 4


async def measure(url: str) -> list[float]:
    """The ratio of each round: both sides in turn, so that a noisy moment hits both."""
    ratios = []
    async with pooled.running(url, slots=2 * CALLERS) as replica:
        await pooled.cycles_per_second(replica, callers=CALLERS, seconds=1)
        for _ in track(range(ROUNDS), "claim_release_vs_pgbench"):
            theirs = await asyncio.to_thread(
                bare.cycles_per_second, url, clients=CALLERS, seconds=SECONDS
            )
            ours = await pooled.cycles_per_second(replica, callers=CALLERS, seconds=SECONDS)
            ratios.append(ours / theirs)
    return ratios


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        server = EmbeddedPostgres(DataDir.open(Path(folder)))
        url = server.start()
        try:
            migrate(url)
            bare.prepare(url)
            ratios = asyncio.run(measure(url))
        finally:
            server.stop()
    figures = {
        "claim_release_vs_pgbench": {
            "median": round(statistics.median(ratios), 3),
            "low": round(min(ratios), 3),
            "high": round(max(ratios), 3),
            "rounds": len(ratios),
        }
    }
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    table = Table("figure", "median", "low", "high", "rounds")
    for name, figure in figures.items():
        table.add_row(name, *(str(value) for value in figure.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
