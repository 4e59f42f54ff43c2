"""Botpool for the code of its users: send bots, wait for them, follow what happens.

    from botpool import Client

    with Client("http://127.0.0.1:8700", key) as botpool:
        bot = botpool.create("https://meet.google.com/abc-defg-hij", display_name="Scribe")
        bot = botpool.wait(bot.id, until={"IN_CALL"})
        botpool.stop(bot.id)
        print(botpool.wait(bot.id).status)

Every call may be repeated without harm, and is, when the connection fails: a bot is made once,
however often its creation had to be sent. What the server refuses comes as an exception of its own
kind, in the server's words.
"""

from botpool.client.client import Client
from botpool.client.errors import (
    BotEnded,
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
    NotValid,
    Refused,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaitedTooLong,
)
from botpool.client.records import Bot, Change, Event, Reset

__all__ = [
    "Bot",
    "BotEnded",
    "Change",
    "Client",
    "ClientError",
    "Conflict",
    "Event",
    "Forbidden",
    "NotFound",
    "NotValid",
    "Refused",
    "Reset",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WaitedTooLong",
]
