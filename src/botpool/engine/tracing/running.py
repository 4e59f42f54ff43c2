"""Runs the span writer of a replica."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from botpool.domain.errors import SettingError
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.loop import Loop
from botpool.engine.tracing.span_writer import SpanWriter
from botpool.store.database import Database

_INTERVAL_S = 2.0


@asynccontextmanager
async def written_traces(
    endpoint: str, database: Database, metrics: Metrics, *, owner: str
) -> AsyncIterator[None]:
    """Write the phases of bots as spans while the context is open."""
    try:
        from botpool.engine.tracing.otlp import OtlpExporter
    except ImportError as error:
        problem = f"traces need another package: pip install 'botpool[otel]' ({error})"
        raise SettingError("tracing.endpoint", problem) from error
    exporter = OtlpExporter(endpoint, attributes={"service.instance.id": owner})
    writer = SpanWriter(database=database, metrics=metrics, owner=owner, export=exporter.export)
    loop = Loop("traces", writer.write, interval_s=_INTERVAL_S)
    loop.start()
    try:
        yield
    finally:
        await loop.stop()
        await exporter.close()
