"""The monotonic clock of the engine: that of the loop it runs on.

In production it is the system's. Where a simulation runs the loop on virtual time, leases and
timeouts follow it without knowing.
"""

import asyncio


def loop_time() -> float:
    return asyncio.get_running_loop().time()
