"""The same work in procrastinate: defer a job, fetch it in a worker, run it and finish it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector

from bench.closed_loop import JobRunner

_CONCURRENCY = 32


@asynccontextmanager
async def working(url: str) -> AsyncIterator[JobRunner]:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=16))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        @app.task(name="cycle", pass_context=False)
        async def cycle(number: int) -> None:
            runner.finish(number)

        async def enqueue(number: int) -> None:
            await cycle.defer_async(number=number)

        runner = JobRunner(enqueue)
        working = asyncio.create_task(
            app.run_worker_async(
                concurrency=_CONCURRENCY, install_signal_handlers=False, delete_jobs="never"
            )
        )
        try:
            yield runner
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(working, 20)
