"""The stream, read beside the display: it may be silent for long, and the display must not be."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from botpool.client.records import Change, Reset
from botpool.client.stream import OnState
from botpool.domain.errors import BotpoolError


class Source(Protocol):
    def changes(self, on_state: OnState) -> Iterable[Change | Reset]: ...


class Feed:
    """What came since it was last asked, and whether more can come."""

    def __init__(self, source: Source) -> None:
        self.lost: str | None = "connecting"
        """Why nothing comes; None while the stream is live."""
        self.lost_at = time.monotonic()
        self._source = source
        self._news: deque[Change | Reset] = deque()
        self._came = threading.Event()
        self._failed: BotpoolError | None = None
        # Nobody waits for it at the end: it may be in the middle of a long silence.
        threading.Thread(target=self._read, name="stream", daemon=True).start()

    def take(self, *, within_s: float) -> Iterator[Change | Reset]:
        """What came; raises what the stream cannot go on from, such as a revoked key."""
        self._came.wait(within_s)
        self._came.clear()
        while self._news:
            yield self._news.popleft()
        if self._failed is not None:
            raise self._failed

    def _read(self) -> None:
        try:
            for news in self._source.changes(self._state):
                self._news.append(news)
                self._came.set()
        except BotpoolError as error:
            self._failed = error
            self._came.set()

    def _state(self, lost: str | None) -> None:
        if lost is not None and self.lost is None:
            self.lost_at = time.monotonic()
        self.lost = lost
        self._came.set()
