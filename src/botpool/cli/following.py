"""Following a bot to its end, with a line that says where it is."""

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext

from botpool.cli import shapes
from botpool.cli.answers import Answer
from botpool.cli.client import Client
from botpool.cli.details import bot_line
from botpool.cli.errors import ServerSilent, ServerUnreachable, Unavailable, say
from botpool.cli.output import console
from botpool.cli.times import took
from botpool.domain.states import FINAL

_LOOK_S = 0.3
_PATIENCE_S = 60.0


def to_its_end(client: Client, answer: Answer[shapes.BotAnswer]) -> Answer[shapes.BotAnswer]:
    """The bot once it is final.

    Progress goes to standard error: on a terminal one line that changes, elsewhere a line for each
    change.
    """
    err = console(sys.stderr)
    last = answer
    told = ""
    began = time.monotonic()
    try:
        with err.status("") if err.is_terminal else nullcontext() as line:
            for last in _looks(client, answer):
                news = bot_line(last.body)
                if line is not None:
                    line.update(news.append(f"  {took(time.monotonic() - began)}", style="dim"))
                elif news.plain != told:
                    err.print(told := news.plain)
    except KeyboardInterrupt:
        bot_id = last.body["bot"]["id"]
        say(f"no longer waiting; bot {bot_id} goes on ('botpool bot stop {bot_id}' ends it)")
        raise
    return last


def _looks(client: Client, answer: Answer[shapes.BotAnswer]) -> Iterator[Answer[shapes.BotAnswer]]:
    """The bot again and again until it is final; a server that restarts is waited for."""
    heard = time.monotonic()
    while True:
        yield answer
        if answer.body["bot"]["status"] in FINAL:
            return
        time.sleep(_LOOK_S)
        try:
            answer = client.bot(answer.body["bot"]["id"])
            heard = time.monotonic()
        except (ServerUnreachable, ServerSilent, Unavailable):
            if time.monotonic() - heard > _PATIENCE_S:
                raise
