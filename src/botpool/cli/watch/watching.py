"""The loop of `botpool watch`: take what came, ask for the whole picture, show it."""

import time
from collections import deque
from contextlib import suppress

from rich.console import Console
from rich.live import Live

from botpool.cli import shapes
from botpool.cli.client import Client
from botpool.cli.errors import ServerSilent, ServerUnreachable, Unavailable
from botpool.cli.watch.feed import Feed
from botpool.cli.watch.picture import Picture, board, change_line
from botpool.client.records import Change

_FRAME_S = 0.5
_LOAD_S = 1.0
_CHANGES_KEPT = 200


class Watching:
    """What is shown, and when it has to be asked for again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._feed = Feed(client)
        self._pools: list[shapes.Pool] = []
        self._slots: list[shapes.Slot] = []
        self._changes: deque[Change] = deque(maxlen=_CHANGES_KEPT)
        self._loaded_at = -_LOAD_S
        self._stale = True

    def picture(self) -> Picture:
        """The next picture, as soon as something changed or time has passed."""
        was_lost = self._feed.lost
        for news in self._feed.take(within_s=_FRAME_S):
            self._stale = True
            if isinstance(news, Change):
                self._changes.append(news)
        if self._feed.lost is None and was_lost is not None:
            self._stale = True
        now = time.monotonic()
        if self._stale and self._feed.lost is None and now - self._loaded_at >= _LOAD_S:
            self._load()
        return Picture(
            url=self._client.url,
            pools=self._pools,
            slots=self._slots,
            age_s=now - self._loaded_at,
            lost=self._feed.lost,
            lost_for_s=now - self._feed.lost_at,
            changes=[*self._changes],
        )

    def _load(self) -> None:
        # A server that has just gone: the stream says so in a moment, and heals.
        with suppress(ServerUnreachable, ServerSilent, Unavailable):
            pools, slots = self._client.pools(), self._client.slots()
            self._pools, self._slots = pools.body["pools"], slots.body["slots"]
            self._loaded_at, self._stale = time.monotonic(), False


def on_screen(client: Client, out: Console) -> None:
    # The first answers decide: a wrong address or key is an error, and no picture.
    client.pools()
    watching = Watching(client)
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            picture = watching.picture()
            live.update(board(picture, width=out.width, height=out.height), refresh=True)


def on_lines(client: Client, out: Console) -> None:
    client.pools()
    feed = Feed(client)
    while True:
        for news in feed.take(within_s=_FRAME_S):
            out.print(change_line(news) if isinstance(news, Change) else f"reset: {news.reason}")
