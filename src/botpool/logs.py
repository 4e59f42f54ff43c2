"""How log lines look: for people on a terminal, as JSON everywhere else."""

import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO, cast

import structlog
from structlog.typing import Processor


class _StandardError(io.TextIOBase):
    """Standard error as it is at the moment: a progress bar stands in for it while it is shown, and
    keeps lines and bar apart.

    A line that a full disk or a reader who has gone does not take is lost: what it tells of has
    happened, and does not fail for it.
    """

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def configure(*, stream: TextIO | None = None, for_people: bool | None = None) -> None:
    """Log to standard error, in the form that fits who reads it."""
    stream = stream or cast("TextIO", _StandardError())
    structlog.configure(
        processors=processors(
            for_people=stream.isatty() if for_people is None else for_people,
        ),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    # What libraries say through the standard library: only their warnings.
    # The pool of connections says nothing that the failing statement does not say better.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    logging.basicConfig(level=logging.WARNING, stream=stream, format="%(name)s: %(message)s")


def processors(*, for_people: bool) -> list[Processor]:
    """What makes a line out of an event. The correlation id of the work at hand goes into each."""
    final: list[Processor] = (
        [_for_each(_line_for_people)]
        if for_people
        else [
            structlog.processors.format_exc_info,
            _for_each(structlog.processors.JSONRenderer(_as_json)),
        ]
    )
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *final,
    ]


def _for_each(render: Processor) -> Processor:
    """Several lines at once, for an event with `each`: in what they differ from one another.

    What an event needs, its time, its level and its write, takes longer than what a line needs.
    """

    def rendered(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        each = event.pop("each", ({},))
        return "\n".join([str(render(logger, method, {**event, **own})) for own in each])

    return rendered


def _as_json(event: Mapping[str, Any], default: Callable[[Any], Any]) -> str:
    """With the encoder that is at hand: one that knows `default` is made anew for every line."""
    try:
        return json.dumps(event)
    except TypeError:
        return json.dumps(event, default=default)


def _line_for_people(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    clock = event.pop("timestamp")[11:19]
    level = event.pop("level")
    name = event.pop("event")
    trace = event.pop("exc_info", None)
    if subject_of := _TRANSITIONS.get(name):
        return f"{clock} {_transition(event, subject_of(event))}"
    fields = " ".join(f"{key}={value}" for key, value in event.items() if value is not None)
    mark = "" if level == "info" else f"{level}: "
    line = f"{clock} {mark}{name} {fields}".rstrip()
    if trace:
        shown = structlog.processors.format_exc_info(None, "", {"exc_info": trace})
        line += f"\n{shown['exception']}"
    return line


def _transition(event: MutableMapping[str, Any], subject: str) -> str:
    """The form that operators know: `[Pool] Slot name (id): idle → deploying | bot=7 | ...`."""
    event.pop("point", None)
    correlation_id = event.pop("correlation_id", None)
    mark = f" [corr={correlation_id}]" if correlation_id else ""
    old, new, reason = (event.pop(key) for key in ("from", "to", "reason"))
    shown = {key: event.pop(key) for key in ("bot", "container") if key in event} | {**event}
    fields = "".join(f"{key}={_or_none(value)} | " for key, value in shown.items())
    return f'[Pool]{mark} {subject}: {old or "new"} → {new or "gone"} | {fields}reason="{reason}"'


def _or_none(value: object) -> object:
    return "none" if value is None else value


_TRANSITIONS: Mapping[str, Callable[[MutableMapping[str, Any]], str]] = {
    "slot.transition": lambda event: f"Slot {event.pop('name')} ({event.pop('slot')})",
    "bot.transition": lambda event: f"Bot {event.pop('bot')}",
}
