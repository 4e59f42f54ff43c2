"""`botpool watch`: the pools, live in the terminal.

After a change in the stream, the command loads the pools and slots again, at most once a second, so
the screen always shows a complete state. Without a terminal, the command prints each change.
"""

from typing import TYPE_CHECKING

from botpool.cli.server_command import with_client

if TYPE_CHECKING:
    from botpool.client import Client


@with_client
def watch(client: "Client") -> None:
    """Show the pools live: slots, queue, times and changes. Ctrl-C ends it.

    Each tile is a slot; its letter and its colour are its status. Without a terminal, the command
    prints one line per change.

    \b
    botpool watch
    botpool watch | grep FAILED
    """
    from botpool.cli.output import console
    from botpool.cli.watch.live_view import print_changes, run_live_view

    out = console()
    if out.is_terminal:
        run_live_view(client, out)
    else:
        print_changes(client, out)
