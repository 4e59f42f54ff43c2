"""Waiting for the stop of the container."""

import asyncio
import contextlib
import signal


async def wait_for_sigterm(limit_s: float) -> None:
    """Wait until the container is stopped, but no longer than the limit.

    Outside the main thread the signal cannot be received here; by default it ends the process.
    """
    stopped = asyncio.Event()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), limit_s)
