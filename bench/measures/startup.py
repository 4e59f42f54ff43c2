"""The start of `botpool up`, compared with PostgreSQL alone; `botpool --help`, with Python alone.

On an empty directory both sides create the cluster and the database. On an existing one, `limit`
is the start of an interpreter that only imports the libraries of a server.
"""

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.figures import Figure
from bench.postgres import Bench
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres

_BOTPOOL = Path(sys.executable).with_name("botpool")
_LIBRARIES = (
    "import gc; gc.disable(); import fastapi, psycopg, psycopg_pool, pydantic, uvicorn, uvloop"
)
"""The libraries of every start, imported without garbage collection, as Botpool does."""

_TOLERANCE = 50
"""The bare server starts in a few hundredths of a second, so the ratio varies widely."""


def measure(bench: Bench) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        rounds = 1 if bench.small else bench.rounds
        first = _first_starts(Path(folder), rounds=rounds)
        again = _starts(Path(folder) / "up-0", rounds=rounds)
    helps = [
        _run(str(_BOTPOOL), "--help") / _run(sys.executable, "-c", "pass")
        for _ in range(3 if bench.small else 5)
    ]
    return [first, again, Figure(name="help_vs_python", rounds=helps, goal=12, at_most=True)]


def _first_starts(folder: Path, *, rounds: int) -> Figure:
    ratios, ups = [], []
    for n in range(rounds):
        bare = _bare(folder / f"bare-{n}")
        ups.append(_up(folder / f"up-{n}"))
        ratios.append(ups[-1] / bare)
    return Figure(
        name="first_start_vs_postgres",
        rounds=ratios,
        goal=3,
        at_most=True,
        detail={"up_s": _seconds(ups)},
    )


def _starts(data: Path, *, rounds: int) -> Figure:
    ratios, limits, ups = [], [], []
    for _ in range(rounds):
        bare = _bare(data)
        ups.append(_up(data))
        ratios.append(ups[-1] / bare)
        limits.append(_run(sys.executable, "-c", _LIBRARIES) / bare)
    return Figure(
        name="startup_vs_postgres",
        rounds=ratios,
        at_most=True,
        tolerance=_TOLERANCE,
        detail={"up_s": _seconds(ups), "limit": round(statistics.median(limits), 2)},
    )


def _seconds(times: list[float]) -> float:
    return round(statistics.median(times), 2)


def _bare(data: Path) -> float:
    """Measure the start of the embedded server alone."""
    began = time.perf_counter()
    server = EmbeddedPostgres(DataDir.open(data))
    server.start()
    took = time.perf_counter() - began
    server.stop()
    return took


def _up(data: Path) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"BOTPOOL_DATA_DIR": str(data)}
    began = time.perf_counter()
    with subprocess.Popen(
        [str(_BOTPOOL), "up", "--port", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            _await_ready(port, child)
            return time.perf_counter() - began
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(60)


def _await_ready(port: int, child: subprocess.Popen[bytes]) -> None:
    while child.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("botpool up ended before it was ready")


def _run(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
