"""Runs the demo and returns its exit code."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from rich.console import Console

from botpool.cli.demo.checks import find_problems
from botpool.cli.demo.display import display_on
from botpool.cli.demo.installation import DemoInstallation, demo_installation
from botpool.cli.demo.scenario import BOTS
from botpool.cli.demo.snapshots import Snapshot, run_bots
from botpool.cli.demo.summary import summary
from botpool.cli.output import console
from botpool.cli.progress import bar
from botpool.client import Client


def run(*, on_coolify: bool = False, database_url: str | None = None) -> int:
    """Run the demo. The exit code is 0 if the checks find no problem."""
    out = console()
    began = time.monotonic()
    with _interrupted_by_signals(), ExitStack() as stack:
        started = "the Coolify emulator, PostgreSQL" if on_coolify else "PostgreSQL"
        with bar(out, f"Starting {started} and the server"):
            installation = stack.enter_context(
                demo_installation(on_coolify=on_coolify, database_url=database_url)
            )
        try:
            snapshot = _run_bots(out, installation)
            still_running = installation.running_bots()
        finally:
            with bar(out, "Stopping everything"):
                stack.close()
    problems = find_problems(snapshot, BOTS) + still_running + installation.leftovers
    out.print(summary(snapshot, BOTS, problems, time.monotonic() - began))
    return 1 if problems else 0


def _run_bots(out: Console, installation: DemoInstallation) -> Snapshot:
    """Run all bots, show them, and return the last snapshot."""
    coolify = installation.coolify
    with (
        Client(installation.url, installation.key) as client,
        display_on(out, installation.url) as show,
    ):
        last = None
        for last in run_bots(client, BOTS, count=coolify.counts if coolify else None):
            show(last)
    assert last is not None
    return last


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does, so that it removes its installation."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    yield
