"""`botpool demo`: a busy morning that a person can watch, and that checks itself.

It is played on the real thing: `botpool up` in a process of its own with an embedded PostgreSQL,
bots as processes, requests over HTTP as a user sends them. Only the meetings are not there.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from rich.console import Console

from botpool.cli.client import Client
from botpool.cli.connection import Target
from botpool.cli.demo.cast import CAST
from botpool.cli.demo.play import Scene, play
from botpool.cli.demo.stage import stage
from botpool.cli.demo.summary import summary
from botpool.cli.demo.verdict import complaints
from botpool.cli.demo.view import view_on
from botpool.cli.output import console


def run() -> int:
    """The exit code: 0 when all went as it should."""
    out = console()
    began = time.monotonic()
    with _ended_like_ctrl_c(), ExitStack() as stack:
        with out.status("Starting PostgreSQL and the server …"):
            playing = stack.enter_context(stage())
        try:
            scene = _performed(out, playing.target)
            left = playing.running_bots()
        finally:
            with out.status("Stopping everything …"):
                stack.close()
    problems = complaints(scene, CAST) + left + playing.leftovers
    out.print(summary(scene, CAST, problems, time.monotonic() - began))
    return 1 if problems else 0


def _performed(out: Console, target: Target) -> Scene:
    """Play before the eyes of whoever looks, and give the last scene."""
    with Client(target) as client, view_on(out, target.url) as view:
        last = None
        for last in play(client, CAST):
            view.show(last)
    assert last is not None, "a play has at least one scene"
    return last


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """However the demo is told to end, it clears its stage."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    yield
