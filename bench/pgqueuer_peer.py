"""The same work in pgqueuer: enqueue a job, dequeue it in a worker, run it and complete it.

The set-up follows pgqueuer's page on performance: asyncpg, a pool for the producers, one connection
for the worker, its autovacuum settings, and larger batches for short jobs.
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

from bench.closed_loop import JobRunner


@asynccontextmanager
async def working(url: str) -> AsyncIterator[JobRunner]:
    async with asyncpg.create_pool(url, min_size=5, max_size=20) as pool:
        driver = AsyncpgDriver(await asyncpg.connect(url))
        await Queries(driver).install()
        await Queries(driver).optimize_autovacuum()
        queue = Queries(AsyncpgPoolDriver(pool))

        async def enqueue(number: int) -> None:
            await queue.enqueue("cycle", str(number).encode())

        runner = JobRunner(enqueue)
        worker = PgQueuer(driver)

        @worker.entrypoint("cycle")
        async def cycle(job: Job) -> None:
            assert job.payload is not None
            runner.finish(int(job.payload))

        working = asyncio.create_task(
            worker.run(dequeue_timeout=timedelta(seconds=1), batch_size=25)
        )
        try:
            yield runner
        finally:
            worker.shutdown.set()
            await asyncio.wait_for(working, 20)
