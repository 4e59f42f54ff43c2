"""The `botpool` command. Everything heavy is imported inside the commands that need it."""


def main() -> None:
    from botpool.cli.commands import app

    app()
