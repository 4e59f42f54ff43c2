"""`botpool watch`: the overview, live in the terminal.

The stream tells that something changed; the pools and slots are then asked for, once a second at
most, so that what is shown is always a whole picture and never a sum of its changes. Elsewhere
than on a terminal, the changes themselves are printed, a line for each.
"""

from typing import TYPE_CHECKING

from botpool.cli.connection import connected

if TYPE_CHECKING:
    from botpool.cli.client import Client


@connected
def watch(client: "Client") -> None:
    """Watch the pools live: slots, queue, times, and what changes. Ctrl-C ends it.

    A tile is a slot: its letter and its colour are its status. Without a terminal, each change is
    a line.

    \b
    botpool watch
    botpool watch | grep FAILED
    """
    from botpool.cli.output import console
    from botpool.cli.watch.watching import on_lines, on_screen

    out = console()
    if out.is_terminal:
        on_screen(client, out)
    else:
        on_lines(client, out)
