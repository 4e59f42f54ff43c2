"""Settings of traces."""

from botpool.settings.declaration import Section, setting
from botpool.settings.value_types import WebAddress


class TracingSettings(Section):
    """Traces of bots for OpenTelemetry."""

    endpoint: WebAddress | None = setting(None, example="http://127.0.0.1:4318")
    """The address of an OpenTelemetry collector that takes OTLP over HTTP; without it, Botpool
    writes no traces. It needs `pip install 'botpool[otel]'`. The variables `OTEL_SERVICE_NAME`,
    `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS` apply, with the others of the
    exporter."""
