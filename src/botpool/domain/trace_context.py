"""The trace that a bot belongs to, by the W3C recommendation "Trace Context".

A bot continues the trace of the request that created it (`traceparent`). Without one it has a trace
of its own, whose id is the correlation id if Botpool generated that. Every id follows from stored
values, so any replica computes the same ids, and a span that is written twice is one span.
"""

import hashlib
import re
from dataclasses import dataclass

from botpool.domain.ids import BotId

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID = re.compile("[0-9a-f]{32}")
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A trace, the span that caused the bot, and whether its spans are wanted."""

    trace_id: str
    parent_span_id: str | None
    is_sampled: bool


def valid_traceparent(header: str | None) -> str | None:
    """Return the header in the form of version 00; None if it is missing or invalid.

    The recommendation demands that an invalid header is ignored, and that a later version is read
    as far as version 00 goes.
    """
    match = _TRACEPARENT.fullmatch((header or "").strip())
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    if not int(match[2], 16) or not int(match[3], 16):
        return None
    return f"00-{match[2]}-{match[3]}-{int(match[4], 16) & _SAMPLED:02x}"


def trace_of(bot_id: BotId, correlation_id: str, traceparent: str | None) -> TraceContext:
    """Return the trace of a bot."""
    if traceparent is None:
        is_trace_id = _TRACE_ID.fullmatch(correlation_id) and int(correlation_id, 16)
        trace_id = correlation_id if is_trace_id else _digest(f"{correlation_id}/{bot_id}", 32)
        return TraceContext(trace_id=trace_id, parent_span_id=None, is_sampled=True)
    _, trace_id, span_id, flags = traceparent.split("-")
    return TraceContext(
        trace_id=trace_id, parent_span_id=span_id, is_sampled=bool(int(flags, 16) & _SAMPLED)
    )


def span_id_of(trace: TraceContext, bot_id: BotId, name: str, row_id: int = 0) -> str:
    """Return the id of a bot's span that began at this row of history; 0 for the whole bot."""
    return _digest(f"span/{trace.trace_id}/{bot_id}/{name}/{row_id}", 16)


def container_traceparent(bot_id: BotId, trace: TraceContext) -> str:
    """Return TRACEPARENT for the bot's container, whose spans are children of the bot's span."""
    flags = _SAMPLED if trace.is_sampled else 0
    return f"00-{trace.trace_id}-{span_id_of(trace, bot_id, 'bot')}-{flags:02x}"


def _digest(text: str, length: int) -> str:
    """Return hexadecimal digits that are not all zero, which the recommendation forbids."""
    return hashlib.sha256(text.encode()).hexdigest()[: length - 1] + "1"
