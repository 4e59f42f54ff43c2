"""procrastinate at the same work: a job is deferred, fetched by its worker, run and finished."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector

from bench.closed_loop import Once

_AT_ONCE = 32


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Once]:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=16))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        @app.task(name="cycle", pass_context=False)
        async def cycle(number: int) -> None:
            once.ran(number)

        async def put(number: int) -> None:
            await cycle.defer_async(number=number)

        once = Once(put)
        working = asyncio.create_task(
            app.run_worker_async(
                concurrency=_AT_ONCE, install_signal_handlers=False, delete_jobs="never"
            )
        )
        try:
            yield once
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(working, 20)
