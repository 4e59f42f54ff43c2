"""The `botpool` command. Everything heavy is imported inside the commands that need it."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and give its exit code."""
    from botpool.cli.commands import app
    from botpool.cli.errors import told_in_one_line

    return told_in_one_line(app, arguments)
