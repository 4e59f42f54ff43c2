"""What a run costs beside its rate: the processor time of server and client for each cycle.

A rate depends on who else wants the processors. What one cycle takes of them does not.
"""

import resource
import statistics
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from bench.ground import Ground


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    per_second: float
    server_s: float
    client_s: float

    @property
    def both_s(self) -> float:
        return self.server_s + self.client_s


async def costed(
    ground: Ground, run: Awaitable[float], *, client: int = resource.RUSAGE_SELF
) -> Cost:
    """A run that gives its cycles a second; `client`: is that this process, or its children?"""
    server, used, began = ground.server_cpu_s(), _used_s(client), time.monotonic()
    per_second = await run
    cycles = per_second * (time.monotonic() - began)
    return Cost(
        per_second=per_second,
        server_s=(ground.server_cpu_s() - server) / cycles,
        client_s=(_used_s(client) - used) / cycles,
    )


def compared(ours: Sequence[Cost], theirs: Sequence[Cost]) -> dict[str, float]:
    """Theirs by ours, and by our server alone: what a client without any cost would reach."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "processor_time_ratio": round(
            statistics.median(their.both_s / our.both_s for our, their in pairs), 3
        ),
        "limit": round(statistics.median(their.both_s / our.server_s for our, their in pairs), 3),
    }


def _used_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
