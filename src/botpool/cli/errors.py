"""Errors as one clear line on standard error, and an exit code: 1 failed, 2 used wrongly.

No traceback reaches a user. What we raise on purpose is said in its own words, and so is a wrong
use of the command, which typer would spread over five lines.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from botpool.domain.errors import BotpoolError, SettingError, UnknownPool

INTERRUPTED = 130


@dataclass(eq=False)
class UsedWrongly(BotpoolError):
    """An argument that typer lets through and that cannot mean anything."""

    argument: str
    problem: str

    def __str__(self) -> str:
        return f"{self.argument}: {self.problem}"


class NoSource(BotpoolError):
    """The package alone is not enough for this."""

    def __str__(self) -> str:
        return "The bench is part of Botpool's source: run 'make bench' in a checkout of it."


@dataclass(eq=False)
class NoKey(BotpoolError):
    detail: str

    def __str__(self) -> str:
        return (
            f"No API key: {self.detail}. Give one with --key or BOTPOOL_API_KEY, or name the "
            "--data-dir of 'botpool up'; 'botpool key create' makes one."
        )


@dataclass(eq=False)
class ServerUnreachable(BotpoolError):
    url: str
    problem: str

    def __str__(self) -> str:
        return (
            f"No Botpool answers at {self.url} ({self.problem}). "
            "Start it with 'botpool up', or name another with --url or BOTPOOL_URL."
        )


@dataclass(eq=False)
class ServerSilent(BotpoolError):
    """It was reached, but whether it did what was asked is unknown."""

    url: str
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.url} was reached, but gave no whole answer ({self.problem}). "
            "Look whether it was done before you try again."
        )


@dataclass(eq=False)
class NotBotpool(BotpoolError):
    url: str
    answer: str

    def __str__(self) -> str:
        return (
            f"{self.url} answers, but not as this Botpool does ({self.answer}). "
            "Check --url, and that client and server have the same version."
        )


@dataclass(eq=False)
class KeyRefused(BotpoolError):
    url: str
    key_from: str

    def __str__(self) -> str:
        return (
            f"{self.url} does not know the key from {self.key_from}. "
            "Give a valid one with --key or BOTPOOL_API_KEY; make one with 'botpool key create'."
        )


@dataclass(eq=False)
class Refused(BotpoolError):
    """The server said no, in words that are meant for people."""

    status: int
    detail: str

    def __str__(self) -> str:
        return self.detail


@dataclass(eq=False)
class RequestNotValid(Refused):
    """The server could not make sense of what it was asked: every field that is wrong."""

    fields: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{name}: {problem}" for name, problem in self.fields) or self.detail

    def in_words_of(self, names: Mapping[str, str]) -> "RequestNotValid":
        """The same, with the names by which the user of a command knows the fields."""
        fields = tuple((names.get(name, name), problem) for name, problem in self.fields)
        return RequestNotValid(self.status, self.detail, fields)


class Unavailable(Refused):
    """Not possible right now; later, it may be."""


_USED_WRONGLY = (NoKey, RequestNotValid, SettingError, UnknownPool, UsedWrongly)


def told_in_one_line(app: Callable[..., Any], arguments: Sequence[str] | None) -> int:
    """Run the command and give its exit code, whatever happens in it."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = app(args=arguments, prog_name="botpool", standalone_mode=False)
    except BotpoolError as error:
        say(str(error))
        return 2 if isinstance(error, _USED_WRONGLY) else 1
    except typer.TyperException as error:
        say(_usage(error))
        return error.exit_code
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def say(line: str) -> None:
    """One line for people, beside whatever the command writes to standard output."""
    shown = " ".join(line.split())
    print(f"botpool: {shown}", file=sys.stderr)  # noqa: T201 - this is the command line


def _usage(error: typer.TyperException) -> str:
    problem = error.format_message().replace("Value error, ", "").rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "botpool"
    return f"{problem}. See '{command} --help'."
