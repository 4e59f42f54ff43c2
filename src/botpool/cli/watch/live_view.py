"""The loop of `botpool watch`: take changes, load the state, draw the screen."""

import time
from collections import deque
from contextlib import suppress

from rich.console import Console
from rich.live import Live

from botpool.cli.watch.change_feed import ChangeFeed
from botpool.cli.watch.screen import Snapshot, change_line, screen
from botpool.client import Change, Client, Pool, Slot, Unavailable, Unreachable

_FRAME_S = 0.5
_LOAD_INTERVAL_S = 1.0
_CHANGES_KEPT = 200


class LiveView:
    """Keeps the state that the screen shows, and loads it again after changes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._feed = ChangeFeed(client)
        self._pools: list[Pool] = []
        self._slots: list[Slot] = []
        self._changes: deque[Change] = deque(maxlen=_CHANGES_KEPT)
        self._loaded_at = -_LOAD_INTERVAL_S
        self._outdated = True

    def next_snapshot(self) -> Snapshot:
        """The next state, after a change or after a short time."""
        was_down = self._feed.problem is not None
        for change in self._feed.take(within_s=_FRAME_S):
            self._outdated = True
            if isinstance(change, Change):
                self._changes.append(change)
        connected = self._feed.problem is None
        self._outdated = self._outdated or (connected and was_down)
        now = time.monotonic()
        if self._outdated and connected and now - self._loaded_at >= _LOAD_INTERVAL_S:
            self._load()
        return Snapshot(
            url=self._client.url,
            pools=self._pools,
            slots=self._slots,
            age_s=now - self._loaded_at,
            problem=self._feed.problem,
            down_for_s=now - self._feed.down_since,
            changes=[*self._changes],
        )

    def _load(self) -> None:
        # If the server has just stopped, the stream reports it and reconnects.
        with suppress(Unreachable, Unavailable):
            self._pools, self._slots = self._client.pools(), self._client.slots()
            self._loaded_at, self._outdated = time.monotonic(), False


def show_screen(client: Client, out: Console) -> None:
    """Draw the screen until Ctrl-C."""
    # A wrong address or key fails here, before the screen is drawn.
    client.pools()
    view = LiveView(client)
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            drawn = screen(view.next_snapshot(), width=out.width, height=out.height)
            live.update(drawn, refresh=True)


def print_changes(client: Client, out: Console) -> None:
    """Print one line per change until Ctrl-C."""
    client.pools()
    feed = ChangeFeed(client)
    while True:
        for change in feed.take(within_s=_FRAME_S):
            if isinstance(change, Change):
                out.print(change_line(change))
            else:
                out.print(f"reset: {change.reason}")
