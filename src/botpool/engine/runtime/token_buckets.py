"""Token buckets that all replicas share, for the limits of callers.

A replica takes tokens from the bucket in the database in advance and spends them in memory, so
that most requests cost no statement. A token belongs to one replica only: together, all replicas
spend at most the burst and the refill. A replica that ends loses its unspent tokens, at most one
batch.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from botpool.domain.errors import LimitExceeded
from botpool.domain.limits import Rate
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database
from botpool.store.token_buckets import take_tokens

_LARGEST_BATCH = 100
_BATCHES_IN_BURST = 10
_MAX_BUCKETS = 10_000


@dataclass(slots=True)
class _Share:
    """The tokens of one bucket that this replica may spend."""

    tokens: int = 0
    refused_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TokenBuckets:
    """Takes tokens for a subject, such as an API key or a tenant."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._monotonic = monotonic
        self._shares: dict[str, _Share] = {}

    async def take(self, subject: str, rate: Rate) -> None:
        """Take one token for a subject, or raise `LimitExceeded`."""
        if rate.per_minute == 0:
            return
        bucket = f"{rate.limit} {subject}"
        share = self._shares.get(bucket) or self._new_share(bucket)
        if share.tokens == 0:
            # Concurrent requests share one statement. The replica asks again at the time of the
            # next token, so that a flood of refused requests costs no statements either.
            async with share.lock:
                if share.tokens == 0:
                    await self._refill(share, bucket, rate)
        share.tokens -= 1

    async def _refill(self, share: _Share, bucket: str, rate: Rate) -> None:
        if (wait_s := share.refused_until - self._monotonic()) > 0:
            raise _refusal(rate, wait_s)
        grant = await take_tokens(
            self._database,
            bucket=bucket,
            wanted=max(1, min(rate.burst // _BATCHES_IN_BURST, _LARGEST_BATCH)),
            burst=rate.burst,
            per_minute=rate.per_minute,
        )
        share.tokens = grant.tokens
        if grant.tokens == 0:
            share.refused_until = self._monotonic() + grant.wait_s
            raise _refusal(rate, grant.wait_s)

    def _new_share(self, bucket: str) -> _Share:
        if len(self._shares) >= _MAX_BUCKETS:
            self._shares.clear()
        share = self._shares[bucket] = _Share()
        return share


def _refusal(rate: Rate, wait_s: float) -> LimitExceeded:
    allowed = f"{rate.per_minute} a minute, after a burst of {rate.burst}"
    return LimitExceeded(
        rate.limit, f"{rate.limit} allows {allowed}.", retry_after_s=max(1, math.ceil(wait_s))
    )
