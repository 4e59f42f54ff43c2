"""Waits for a bot or for a pool, and shows the progress on standard error."""

import sys
import time
from contextlib import nullcontext

from botpool.cli.details import bot_line
from botpool.cli.errors import print_notice
from botpool.cli.output import console
from botpool.cli.progress import bar
from botpool.cli.times import precise_duration
from botpool.client import Bot, Client, Pool


def wait_for_end(client: Client, bot: Bot) -> Bot:
    """Wait until a bot has ended and return it.

    On a terminal, one line shows the bot's status; elsewhere, each change is a line.
    """
    err = console(sys.stderr)
    began = time.monotonic()
    printed = ""
    try:
        with err.status("") if err.is_terminal else nullcontext() as line:

            def report(polled: Bot) -> None:
                nonlocal printed
                text = bot_line(polled)
                if line is not None:
                    elapsed = precise_duration(time.monotonic() - began)
                    line.update(text.append(f"  {elapsed}", style="dim"))
                elif text.plain != printed:
                    err.print(printed := text.plain)

            return client.wait(bot, on_poll=report)
    except KeyboardInterrupt:
        advice = f"'botpool bot stop {bot.id}' stops it"
        print_notice(f"stopped waiting; bot {bot.id} goes on ({advice})")
        raise


def wait_until_drained(client: Client, pool: Pool) -> None:
    """Wait until no slot of a drained pool has a bot, and show how many still have one."""
    err = console(sys.stderr)
    first = most = pool.slots_with_bot
    printed = 0
    try:
        with bar(err, f"Waiting for the bots of {pool.platform}") as update:

            def report(polled: Pool) -> None:
                nonlocal most, printed
                left = polled.slots_with_bot
                most = max(most, left)
                update(most - left, most)
                if not err.is_terminal and left not in (0, printed):
                    printed = left
                    err.print(f"{left} of {first} slots still have a bot")

            client.wait_until_drained(pool, on_poll=report)
    except KeyboardInterrupt:
        print_notice(f"stopped waiting; pool {pool.platform} stays drained and its bots go on")
        raise
