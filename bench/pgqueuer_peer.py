"""pgqueuer at the same work: a job is enqueued, dequeued by its worker, run and completed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.closed_loop import Once

_CALLERS = 8
"""Connections for those who enqueue: one would make them wait for each other."""


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Once]:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as ours,
        _connections(url, _CALLERS) as theirs,
    ):
        await Queries(PsycopgDriver(ours)).install()
        queues = [Queries(PsycopgDriver(connection)) for connection in theirs]

        async def put(number: int) -> None:
            await queues[number % _CALLERS].enqueue("cycle", str(number).encode())

        once = Once(put)
        worker = PgQueuer(PsycopgDriver(ours))

        @worker.entrypoint("cycle")
        async def cycle(job: Job) -> None:
            assert job.payload is not None
            once.ran(int(job.payload))

        working = asyncio.create_task(
            worker.run(dequeue_timeout=timedelta(seconds=1), batch_size=32)
        )
        try:
            yield once
        finally:
            worker.shutdown.set()
            await asyncio.wait_for(working, 20)


@asynccontextmanager
async def _connections(url: str, count: int) -> AsyncIterator[list[psycopg.AsyncConnection]]:
    opened = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            await connection.close()
