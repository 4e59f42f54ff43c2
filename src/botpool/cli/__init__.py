"""The `botpool` command. Everything heavy is imported inside the commands that need it."""

from collections.abc import Sequence

from botpool.cli.importing import importing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and give its exit code."""
    with importing():
        from botpool.cli.commands import app
        from botpool.cli.errors import told_in_one_line

    return told_in_one_line(app, arguments)
