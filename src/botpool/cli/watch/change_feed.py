"""Reads the stream of changes in a thread, so that the screen is redrawn while it is silent."""

import threading
import time
from collections import deque
from collections.abc import Iterator

from botpool.client import Change, Client, ClientError, Reset


class ChangeFeed:
    """The changes since the last call of `take`, and the state of the connection."""

    def __init__(self, client: Client) -> None:
        self.problem: str | None = "connecting"
        """Why the stream is down; None while it is connected."""
        self.down_since = time.monotonic()
        self._client = client
        self._changes: deque[Change | Reset] = deque()
        self._arrived = threading.Event()
        self._failure: ClientError | None = None
        # A daemon thread: the process exits although the thread waits for the server.
        threading.Thread(target=self._read, name="stream", daemon=True).start()

    def take(self, *, within_s: float) -> Iterator[Change | Reset]:
        """Wait for changes and return them; raise an error that ends the stream."""
        self._arrived.wait(within_s)
        self._arrived.clear()
        while self._changes:
            yield self._changes.popleft()
        if self._failure is not None:
            raise self._failure

    def _read(self) -> None:
        try:
            for change in self._client.changes(on_state=self._set_state):
                self._changes.append(change)
                self._arrived.set()
        except ClientError as error:
            self._failure = error
            self._arrived.set()

    def _set_state(self, problem: str | None) -> None:
        if problem is not None and self.problem is None:
            self.down_since = time.monotonic()
        self.problem = problem
        self._arrived.set()
