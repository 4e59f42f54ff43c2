"""The format of log lines: readable text on a terminal, JSON elsewhere.

Values may come from agents and users. A value can neither begin a new line nor steer a terminal.
No line contains the query of a link, because meeting links contain passwords.
"""

import contextlib
import io
import json
import logging
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO, cast

import structlog
from structlog.typing import Processor

_LINK_QUERY = re.compile(r"""(\w+://[^\s?#"'\\]*)[?#][^\s"'\\,)]*""")
_ROW = re.compile(r"(Failing row contains ).*?(?=\\n|\n|$)")
_HIDDEN = "***"


def without_passwords(line: str) -> str:
    """Hide the query of every link, and rows that PostgreSQL quotes in its errors."""
    if "://" in line:
        line = _LINK_QUERY.sub(rf"\1?{_HIDDEN}", line)
    if "Failing row" in line:
        line = _ROW.sub(rf"\1{_HIDDEN}", line)
    return line


def printable(text: str, *, keep: str = "") -> str:
    """Replace control characters, line breaks and invisible formatting with `?`, except `keep`."""
    if text.isprintable():
        return text
    return "".join(
        "?" if unicodedata.category(each) in _UNPRINTABLE and each not in keep else each
        for each in text
    )


_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class _LineFormatter(logging.Formatter):
    """Formats the messages of libraries like our own lines."""

    def format(self, record: logging.LogRecord) -> str:
        return without_passwords(printable(super().format(record), keep="\n"))


class _StandardError(io.TextIOBase):
    """The current `sys.stderr`, which a progress bar replaces while it is shown.

    A line that cannot be written, because of a full disk or a closed pipe, is dropped: the work
    that it reports must not fail.
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
    """Log to standard error, as text for people or as JSON; by default, text on a terminal."""
    stream = stream or cast("TextIO", _StandardError())
    structlog.configure(
        processors=processors(
            for_people=stream.isatty() if for_people is None else for_people,
        ),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard library; only their warnings are wanted. Every problem of
    # the connection pool is also the error of a statement.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_LineFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def processors(*, for_people: bool) -> list[Processor]:
    """The processors that turn an event into a line, with the current correlation id."""
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
    """Render one line for each item of the event's field `each`, which adds its own fields.

    The lines share their time, level and write, which cost more than the rendering.
    """

    def rendered(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        each = event.pop("each", ({},))
        lines = [str(render(logger, method, {**event, **own})) for own in each]
        return without_passwords("\n".join(lines))

    return rendered


def _as_json(event: Mapping[str, Any], default: Callable[[Any], Any]) -> str:
    """Encode without `default` if possible: json creates a new encoder for each call with it."""
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
        return printable(f"{clock} {_transition(event, subject_of(event))}")
    fields = " ".join(f"{key}={value}" for key, value in event.items() if value is not None)
    mark = "" if level == "info" else f"{level}: "
    line = printable(f"{clock} {mark}{name} {fields}".rstrip())
    if trace:
        shown = structlog.processors.format_exc_info(None, "", {"exc_info": trace})
        line += f"\n{printable(str(shown['exception']), keep=chr(10))}"
    return line


def _transition(event: MutableMapping[str, Any], subject: str) -> str:
    """A transition in the form `[Pool] Slot name (id): idle → deploying | bot=7 | ...`."""
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
