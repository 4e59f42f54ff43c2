"""The loop of `botpool watch`: take changes, load the state, draw the screen."""

import queue
import threading
import time
from collections import deque
from contextlib import suppress

from rich.console import Console
from rich.live import Live

from botpool.cli.watch.screen import Snapshot, change_line, screen
from botpool.client import Change, Client, ClientError, Pool, Reset, Slot, Unavailable, Unreachable

_FRAME_S = 0.5
_LOAD_INTERVAL_S = 1.0
_CHANGES_KEPT = 200


class LiveView:
    """Keeps the state that the screen shows, and loads it again after changes.

    A thread reads the stream, so that the screen is redrawn while the stream is silent.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._arrived: queue.SimpleQueue[Change | Reset | ClientError | None] = queue.SimpleQueue()
        self._problem: str | None = "connecting"
        self._down_since = time.monotonic()
        self._pools: list[Pool] = []
        self._slots: list[Slot] = []
        self._changes: deque[Change] = deque(maxlen=_CHANGES_KEPT)
        self._loaded_at = -_LOAD_INTERVAL_S
        self._outdated = True
        # A daemon thread: the process exits although the thread waits for the server.
        threading.Thread(target=self._read_stream, name="stream", daemon=True).start()

    def next_snapshot(self) -> Snapshot:
        """The next state, after a change or after a short time."""
        self._take_changes()
        now = time.monotonic()
        live = self._problem is None
        if self._outdated and live and now - self._loaded_at >= _LOAD_INTERVAL_S:
            self._load()
        return Snapshot(
            url=self._client.url,
            pools=self._pools,
            slots=self._slots,
            age_s=now - self._loaded_at,
            problem=self._problem,
            down_for_s=now - self._down_since,
            changes=[*self._changes],
        )

    def _take_changes(self) -> None:
        """Wait for a change and take all that arrived; raise an error that ended the stream."""
        with suppress(queue.Empty):
            arrived = self._arrived.get(timeout=_FRAME_S)
            while True:
                if isinstance(arrived, ClientError):
                    raise arrived
                self._outdated = True
                if isinstance(arrived, Change):
                    self._changes.append(arrived)
                arrived = self._arrived.get_nowait()

    def _load(self) -> None:
        # If the server has just stopped, the stream reports it and reconnects.
        with suppress(Unreachable, Unavailable):
            self._pools, self._slots = self._client.pools(), [*self._client.slots()]
            self._loaded_at, self._outdated = time.monotonic(), False

    def _read_stream(self) -> None:
        try:
            for change in self._client.changes(on_state=self._set_problem):
                self._arrived.put(change)
        except ClientError as error:
            self._arrived.put(error)

    def _set_problem(self, problem: str | None) -> None:
        if problem is not None and self._problem is None:
            self._down_since = time.monotonic()
        self._problem = problem
        self._arrived.put(None)


def run_live_view(client: Client, out: Console) -> None:
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
    for change in client.changes():
        out.print(change_line(change) if isinstance(change, Change) else f"reset: {change.reason}")
