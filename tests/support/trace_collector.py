"""A collector that takes OTLP over HTTP and keeps the spans."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """The spans that arrived, by span id; and the address of the collector."""

    url: str = ""
    spans: dict[bytes, Span] = field(default_factory=dict)
    received: Condition = field(default_factory=Condition)

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self.received:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    self.spans |= {span.span_id: span for span in scope.spans}
            self.received.notify_all()

    def wait_for(self, name: str, trace_id: str, timeout_s: float) -> list[Span]:
        """Return the spans of a trace, as soon as it has the named one."""

        def found() -> list[Span]:
            of_trace = [each for each in self.spans.values() if each.trace_id.hex() == trace_id]
            return of_trace if any(each.name == name for each in of_trace) else []

        with self.received:
            self.received.wait_for(found, timeout_s)
            spans = found()
        assert spans, f"{trace_id} has no span {name}: {[s.name for s in self.spans.values()]}"
        return sorted(spans, key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            collector.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
