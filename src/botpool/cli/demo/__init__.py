"""`botpool demo`: a busy morning that a person can watch, and that checks itself.

It is played on the real thing: `botpool up` in a process of its own with an embedded PostgreSQL,
bots as processes, requests over HTTP as a user sends them. Only the meetings are not there; with
`--coolify`, the bots' containers are those of an emulated Coolify.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from rich.console import Console

from botpool.cli.client import Client
from botpool.cli.demo.cast import CAST
from botpool.cli.demo.play import Scene, play
from botpool.cli.demo.stage import Stage, stage
from botpool.cli.demo.summary import summary
from botpool.cli.demo.verdict import complaints
from botpool.cli.demo.view import view_on
from botpool.cli.output import console
from botpool.cli.progress import bar


def run(*, on_coolify: bool = False) -> int:
    """The exit code: 0 when all went as it should."""
    out = console()
    began = time.monotonic()
    with _ended_like_ctrl_c(), ExitStack() as stack:
        started = "Coolify's emulator, PostgreSQL" if on_coolify else "PostgreSQL"
        with bar(out, f"Starting {started} and the server"):
            playing = stack.enter_context(stage(on_coolify=on_coolify))
        try:
            scene = _performed(out, playing)
            left = playing.running_bots()
        finally:
            with bar(out, "Stopping everything"):
                stack.close()
    problems = complaints(scene, CAST) + left + playing.leftovers
    out.print(summary(scene, CAST, problems, time.monotonic() - began))
    return 1 if problems else 0


def _performed(out: Console, playing: Stage) -> Scene:
    """Play before the eyes of whoever looks, and give the last scene."""
    coolify = playing.coolify
    with Client(playing.target) as client, view_on(out, playing.target.url) as view:
        last = None
        for last in play(client, CAST, count=coolify.counted if coolify else None):
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
