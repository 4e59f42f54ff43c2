"""Waiting until the last bot has left a drained pool."""

import sys
import time

from botpool.cli import shapes
from botpool.cli.answers import Answer
from botpool.cli.client import Client
from botpool.cli.errors import Refused, ServerSilent, ServerUnreachable, Unavailable, say
from botpool.cli.output import console
from botpool.cli.progress import bar
from botpool.domain.states import WITH_BOT

_LOOK_S = 0.5
_PATIENCE_S = 60.0


def until_empty(client: Client, answer: Answer[shapes.PoolAnswer]) -> Answer[shapes.PoolAnswer]:
    """The pool once no slot of it has a bot. Bots stay as long as their meetings do."""
    platform = answer.body["pool"]["platform"]
    first = most = left = _with_bot(answer)
    told, heard = None, time.monotonic()
    err = console(sys.stderr)
    try:
        with bar(err, f"Bots leave {platform}") as shown:
            while left:
                most = max(most, left)
                shown.tell(most - left, most)
                if not err.is_terminal and left != told:
                    told = left
                    err.print(f"{left} of {first} slots still have a bot")
                time.sleep(_LOOK_S)
                try:
                    answer, heard = client.pool(platform), time.monotonic()
                except (ServerUnreachable, ServerSilent, Unavailable):
                    if time.monotonic() - heard > _PATIENCE_S:
                        raise
                    continue
                if not answer.body["pool"]["drained"]:
                    raise Refused(409, f"Pool {platform} was opened again by somebody else.")
                left = _with_bot(answer)
    except KeyboardInterrupt:
        say(f"no longer waiting; pool {platform} stays drained, its bots go on")
        raise
    return answer


def _with_bot(answer: Answer[shapes.PoolAnswer]) -> int:
    by_status = answer.body["pool"]["slotsByStatus"]
    return sum(by_status.get(status, 0) for status in WITH_BOT)
