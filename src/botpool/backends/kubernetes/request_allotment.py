"""Takes requests from the shared budget in portions, so that not every request asks PostgreSQL.

A portion that is not used up in time is lost: it may not be spent when the budget has forgotten it.
"""

import asyncio
import time
from dataclasses import dataclass, field

from botpool.backends.protocol import RequestBudget, RequestPurpose

_VALID_S = 5.0


@dataclass(slots=True)
class _Portion:
    left: int = 0
    ends_at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the next portion is taken: concurrent requests share it."""


@dataclass(slots=True, kw_only=True)
class RequestAllotment:
    """The requests that this replica has taken and not sent yet, by purpose."""

    shared: RequestBudget
    portion: int
    _portions: dict[RequestPurpose, _Portion] = field(default_factory=dict)

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        """Take requests, from the shared budget only if this replica's portion is used up."""
        while True:
            portion = self._portions.setdefault(purpose, _Portion())
            async with portion.lock:
                if portion.left < requests or time.monotonic() >= portion.ends_at:
                    wanted = max(requests, self.portion)
                    await self.shared.take(purpose, wanted)
                    portion.left, portion.ends_at = wanted, time.monotonic() + _VALID_S
                elif self._portions.get(purpose) is not portion:
                    continue  # A pause gave the portion up while this request waited for it.
                portion.left -= requests
                return

    async def pause(self, seconds: float) -> None:
        """Stop all requests for some time, and give up what is left."""
        self._portions.clear()
        await self.shared.pause(seconds)
