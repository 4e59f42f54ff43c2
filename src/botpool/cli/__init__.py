"""The `botpool` command. Each command imports heavy modules only when it runs."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return its exit code."""
    from botpool.cli.commands import app
    from botpool.cli.errors import run_reporting_errors

    return run_reporting_errors(app, arguments)
