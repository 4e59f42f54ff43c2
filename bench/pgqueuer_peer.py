"""pgqueuer at the same work: a job is enqueued, dequeued by its worker, run and completed.

As its page on performance has it: asyncpg, a pool for those who enqueue and one connection for the
worker, its settings for autovacuum, and larger batches for short jobs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.closed_loop import Once


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Once]:
    async with asyncpg.create_pool(url, min_size=5, max_size=20) as pool:
        driver = AsyncpgDriver(await asyncpg.connect(url))
        await Queries(driver).install()
        await Queries(driver).optimize_autovacuum()
        queue = Queries(AsyncpgPoolDriver(pool))

        async def put(number: int) -> None:
            await queue.enqueue("cycle", str(number).encode())

        once = Once(put)
        worker = PgQueuer(driver)

        @worker.entrypoint("cycle")
        async def cycle(job: Job) -> None:
            assert job.payload is not None
            once.ran(int(job.payload))

        working = asyncio.create_task(
            worker.run(dequeue_timeout=timedelta(seconds=1), batch_size=25)
        )
        try:
            yield once
        finally:
            worker.shutdown.set()
            await asyncio.wait_for(working, 20)
