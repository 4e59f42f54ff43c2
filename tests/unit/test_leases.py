"""No call is sent unless its timeout ends before the lease does, by the monotonic clock."""

import asyncio

import pytest

from botpool.domain.errors import BackendUnavailable
from botpool.engine.runtime.leases import Lease, LeaseTooShort, timed


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def answer(timeout_s: float) -> str:
    return "answer"


async def test_call_with_timeout_before_lease_end_is_sent() -> None:
    time = Time()
    lease = Lease(taken_at=100.0, lease_s=20, call_timeout_s=8, monotonic=time)
    time.now = 111.9
    assert await lease.call(answer) == "answer"


async def test_call_that_could_outlast_lease_is_not_sent() -> None:
    time = Time()
    lease = Lease(taken_at=100.0, lease_s=20, call_timeout_s=8, monotonic=time)
    time.now = 112.0
    with pytest.raises(LeaseTooShort):
        await lease.call(answer)
    lease.renewed(taken_at=112.0, lease_s=20)
    assert await lease.call(answer) == "answer"


async def test_timeout_is_reported_as_unavailable_backend() -> None:
    async def never(timeout_s: float) -> None:
        await asyncio.Event().wait()

    with pytest.raises(BackendUnavailable, match="no answer within"):
        await timed(never, 0.01)
