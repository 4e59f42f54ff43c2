"""The engine's monotonic clock: the clock of the event loop.

A simulation runs the event loop on virtual time, and leases and timeouts follow it.
"""

import asyncio


def loop_time() -> float:
    """Return the monotonic time of the running event loop."""
    return asyncio.get_running_loop().time()
