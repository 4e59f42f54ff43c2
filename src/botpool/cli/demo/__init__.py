"""`botpool demo`: a demonstration that a person can watch, and that checks its own result.

It starts `botpool up` in a process of its own, with an embedded PostgreSQL, and sends bots over
HTTP. The bots are processes, or with `--coolify` containers of an emulated Coolify.
"""

from typing import Annotated

import typer


def demo(
    coolify: Annotated[
        bool, typer.Option("--coolify", help="Run the bots on an emulated Coolify.")
    ] = False,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Use this empty PostgreSQL database. Default: an embedded PostgreSQL",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Watch a pool at work: more bots than slots, a queue, a crash.

    Only the meetings are not real. The demo takes about half a minute, in a temporary directory
    that it removes at the end.

    With --coolify the bots run on an emulated Coolify that is 60 times as fast as a real one. It
    pulls the image once for all first starts; later starts are quick.

    \b
    botpool demo --coolify
    botpool demo --database postgresql://botpool@localhost/demo
    """
    from botpool.cli.demo.run import run

    raise typer.Exit(run(on_coolify=coolify, database_url=database))
