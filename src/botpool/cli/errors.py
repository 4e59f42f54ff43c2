"""Reports errors as one line on standard error, and sets the exit code: 1 failure, 2 usage error.

No traceback reaches a user. A usage error, too, is one line; typer would write five.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from botpool.domain.errors import BotpoolError, SettingError

INTERRUPTED = 130


class CommandFailed(BotpoolError):
    """The command cannot do its work; the message says what to do. The exit code is 1."""


class UsageError(BotpoolError):
    """A value that the user gave cannot be used; the message names it. The exit code is 2."""


def run_reporting_errors(app: Callable[..., Any], arguments: Sequence[str] | None) -> int:
    """Run the command and return its exit code, also after an error."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks becomes a question mark.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = app(args=arguments, prog_name="botpool", standalone_mode=False)
    except BotpoolError as error:
        print_notice(str(error))
        return 2 if isinstance(error, UsageError | SettingError) else 1
    except typer.TyperException as error:
        print_notice(_usage_message(error))
        return error.exit_code
    except OSError as error:
        print_notice(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def print_notice(text: str) -> None:
    """Print one line to standard error."""
    from botpool.cli.formatting import sanitised

    line = sanitised(text)
    print(f"botpool: {line}", file=sys.stderr)  # noqa: T201 - this is the command line


def _usage_message(error: typer.TyperException) -> str:
    problem = error.format_message().replace("Value error, ", "").rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "botpool"
    return f"{problem}. See '{command} --help'."
