"""How log lines look: for people on a terminal, as JSON everywhere else."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog


def configure(*, stream: TextIO | None = None, for_people: bool | None = None) -> None:
    """Log to standard error, in the form that fits who reads it."""
    stream = stream or sys.stderr
    if for_people is None:
        for_people = stream.isatty()
    final: list[Any] = (
        [_line_for_people]
        if for_people
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *final,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    # What libraries say through the standard library: only their warnings.
    # The pool of connections says nothing that the failing statement does not say better.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    logging.basicConfig(level=logging.WARNING, stream=stream, format="%(name)s: %(message)s")


def _line_for_people(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    clock = event.pop("timestamp")[11:19]
    level = event.pop("level")
    name = event.pop("event")
    trace = event.pop("exc_info", None)
    if name == "slot.transition":
        return f"{clock} {_transition(event)}"
    fields = " ".join(f"{key}={value}" for key, value in event.items() if value is not None)
    mark = "" if level == "info" else f"{level}: "
    line = f"{clock} {mark}{name} {fields}".rstrip()
    if trace:
        shown = structlog.processors.format_exc_info(None, "", {"exc_info": trace})
        line += f"\n{shown['exception']}"
    return line


def _transition(event: MutableMapping[str, Any]) -> str:
    return (
        f"[Pool] Slot {event['name']} ({event['slot']}): "
        f"{event['old'] or 'new'} → {event['new'] or 'gone'} | bot={event['bot'] or 'none'} | "
        f"container={event['container'] or 'none'} | corr={event['correlation_id'] or 'none'} | "
        f'reason="{event["reason"]}"'
    )
