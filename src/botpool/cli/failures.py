"""Errors as one clear line on standard error, and an exit code: 1 failed, 2 used wrongly."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from botpool.domain import errors

_USED_WRONGLY = (errors.SettingError, errors.UnknownPlatform)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """No traceback reaches a user: what we raise on purpose is said, and ends the command."""
    try:
        yield
    except errors.BotpoolError as error:
        print(f"botpool: {error}", file=sys.stderr)  # noqa: T201 - this is the command line
        raise typer.Exit(2 if isinstance(error, _USED_WRONGLY) else 1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
