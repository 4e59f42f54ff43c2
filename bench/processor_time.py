"""The processor time that server and client spend on one cycle.

A rate depends on other work on the machine; the processor time of a cycle depends on it less.
"""

import resource
import statistics
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from bench.postgres import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    per_second: float
    server_s: float
    client_s: float

    @property
    def both_s(self) -> float:
        return self.server_s + self.client_s


async def measure_cost(
    bench: Bench, run: Awaitable[float], *, client: int = resource.RUSAGE_SELF
) -> Cost:
    """Await a run that returns its cycles per second; `client` names the process that ran it."""
    server, used, began = bench.server_cpu_s(), _used_s(client), time.monotonic()
    per_second = await run
    cycles = per_second * (time.monotonic() - began)
    return Cost(
        per_second=per_second,
        server_s=(bench.server_cpu_s() - server) / cycles,
        client_s=(_used_s(client) - used) / cycles,
    )


def compare(ours: Sequence[Cost], theirs: Sequence[Cost]) -> dict[str, float]:
    """Divide their processor time by ours, and by that of our server alone (`limit`)."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "processor_time_ratio": round(
            statistics.median(their.both_s / our.both_s for our, their in pairs), 3
        ),
        "limit": round(statistics.median(their.both_s / our.server_s for our, their in pairs), 3),
    }


def _used_s(process: int) -> float:
    usage = resource.getrusage(process)
    return usage.ru_utime + usage.ru_stime
