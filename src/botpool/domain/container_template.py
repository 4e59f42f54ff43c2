"""The environment and the command that a pool's settings give to its containers.

Values may contain placeholders such as `{bot.meetingUrl}`. Botpool fills them in for each start. A
value that is a JSON object or list is filled in inside its strings, so that a bot's name with a
quotation mark stays one string. `${HOME}` is left to a shell, and `{{token}}` means the text
`{token}`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botpool.domain.communication import Protocol

NAMES = (
    "bot.id",
    "bot.meetingUrl",
    "bot.displayName",
    "bot.joinAt",
    "token",
    "url",
    "containerId",
)
"""All placeholders except `botData.…`, whose names are the caller's."""
BOT_DATA = "botData."
KNOWN = ", ".join(f"{{{name}}}" for name in (*NAMES, BOT_DATA + "x"))
MASK = "********"

_NAME = r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]+)*"
_PLACEHOLDER = re.compile(
    rf"\$\{{[^}}]*\}}|\{{(?P<escaped>\{{{_NAME}\}})\}}|\{{(?P<name>{_NAME})\}}"
)
_MIN_MASKED = 4
"""Shorter secrets are not masked: they would blank out ordinary text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProgram:
    """The environment and command of one start. An empty command means the image's own."""

    environment: Mapping[str, str] = field(repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    entrypoint: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderValues:
    """The values of one start."""

    values: Mapping[str, str] = field(repr=False)
    """By the names of `NAMES`."""
    bot_data: Mapping[str, Any] = field(repr=False)

    def get(self, name: str) -> str:
        if not name.startswith(BOT_DATA):
            return self.values[name]
        value: Any = self.bot_data
        for part in name.removeprefix(BOT_DATA).split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTemplate:
    """What a pool's settings add to the environment, and its command and entrypoint."""

    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The values of the secrets, which are used as they are."""
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    protocol: Protocol = Protocol.BOTPOOL

    def fill(self, own: Mapping[str, str], values: PlaceholderValues) -> ContainerProgram:
        """Return the program of one start. `own` are Botpool's own variables."""
        filled = {name: fill(text, values) for name, text in self.env.items()}
        return ContainerProgram(
            environment={**own, **filled, **self.secrets},
            command=tuple(fill(text, values) for text in self.command),
            entrypoint=tuple(fill(text, values) for text in self.entrypoint),
        )

    def mask(self, text: str) -> str:
        """Replace the pool's secrets in a text, such as an error or a bot's output."""
        for secret in sorted(self.secrets.values(), key=len, reverse=True):
            if len(secret) >= _MIN_MASKED:
                text = text.replace(secret, MASK)
        return text

    def mask_bytes(self, output: bytes) -> bytes:
        """Replace the pool's secrets in a bot's output."""
        for secret in sorted(self.secrets.values(), key=len, reverse=True):
            if len(secret) >= _MIN_MASKED:
                output = output.replace(secret.encode(), MASK.encode())
        return output


def unknown_placeholders(text: str) -> Iterator[str]:
    """Yield the placeholders of a setting that Botpool does not know."""
    for match in _PLACEHOLDER.finditer(text):
        name = match["name"]
        if name is not None and name not in NAMES and not name.startswith(BOT_DATA):
            yield match[0]


def fill(text: str, values: PlaceholderValues) -> str:
    """Fill in the placeholders of a setting."""
    if text[:1] in ("{", "["):
        try:
            return json.dumps(_fill_strings(json.loads(text), values), ensure_ascii=False)
        except ValueError:
            pass  # a placeholder at the begin of a text, or a text in brackets
    return _fill_text(text, values)


def _fill_text(text: str, values: PlaceholderValues) -> str:
    def filled(match: re.Match[str]) -> str:
        if match["name"] is not None:
            return values.get(match["name"])
        return match["escaped"] or match[0]

    return _PLACEHOLDER.sub(filled, text)


def _fill_strings(value: Any, values: PlaceholderValues) -> Any:
    match value:
        case str():
            return _fill_text(value, values)
        case list():
            return [_fill_strings(each, values) for each in value]
        case dict():
            return {key: _fill_strings(each, values) for key, each in value.items()}
        case _:
            return value
