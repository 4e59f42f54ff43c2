"""Traces: `span_writer` turns history into spans, and `otlp` sends them to a collector."""
