"""`botpool up` to ready against the bare PostgreSQL; `botpool --help` against an empty Python."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.figures import Figure
from bench.ground import Ground
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres

_BOTPOOL = Path(sys.executable).with_name("botpool")


def measure(ground: Ground) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        data = Path(folder) / "data"
        _up(data)  # The first start makes the cluster; the others find it.
        ups = []
        for _ in range(ground.rounds):
            bare = _bare(data)
            ups.append(_up(data) / bare)
    helps = [
        _run(str(_BOTPOOL), "--help") / _run(sys.executable, "-c", "pass")
        for _ in range(ground.rounds)
    ]
    return [
        Figure(name="startup_vs_postgres", rounds=ups, goal=3, at_most=True),
        Figure(name="help_vs_python", rounds=helps, goal=12, at_most=True),
    ]


def _bare(data: Path) -> float:
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
