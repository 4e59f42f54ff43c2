"""Sends spans to an OpenTelemetry collector. Needs the extra `botpool[otel]`."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from botpool.domain.trace_spans import Span

TIMEOUT_S = 5.0
"""How long the collector may take for a batch, with all repetitions."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """Turns spans into those of the OpenTelemetry SDK, and sends them in a thread."""

    def __init__(
        self, endpoint: str, *, attributes: Mapping[str, str], exporter: SpanExporter | None = None
    ) -> None:
        # The span writer logs each failure itself, in one line.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        address = f"{endpoint.rstrip('/')}/v1/traces"
        self._exporter = exporter or OTLPSpanExporter(endpoint=address, timeout=TIMEOUT_S)
        # Variables such as OTEL_SERVICE_NAME win over these attributes.
        own = Resource({"service.name": "botpool", **attributes})
        self._resource = own.merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope("botpool")

    async def export(self, spans: Sequence[Span]) -> str | None:
        """Send spans; return the problem if the collector did not take them."""
        try:
            result = await asyncio.to_thread(
                self._exporter.export, [self._converted(span) for span in spans]
            )
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if result is SpanExportResult.SUCCESS:
            return None
        return "The collector does not answer or refuses the spans. Check tracing.endpoint."

    async def close(self) -> None:
        await asyncio.to_thread(self._exporter.shutdown)

    def _converted(self, span: Span) -> ReadableSpan:
        status = Status(StatusCode.ERROR, span.failure) if span.failure else Status()
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes=dict(span.attributes),
            links=[Link(_context(span.trace_id, each)) for each in span.links],
            kind=SpanKind.INTERNAL,
            status=status,
            start_time=_nanoseconds(span.began_at),
            end_time=_nanoseconds(span.ended_at),
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=_SAMPLED)


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
