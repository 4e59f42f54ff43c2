"""The Python client for Botpool's HTTP API.

    from botpool import Client

    with Client("http://127.0.0.1:8700", key) as botpool:
        bot = botpool.create("https://meet.google.com/abc-defg-hij", display_name="Scribe")
        bot = botpool.wait(bot.id, until={"IN_CALL"})
        botpool.stop(bot.id)
        print(botpool.wait(bot.id).status)

The client retries a call when the connection fails, if a second execution does no harm; creating a
bot carries an idempotency key, so a retry creates no second bot. A refusal raises an exception of
its own type, with the server's explanation.
"""

from botpool.client.client import Client
from botpool.client.connection import Response
from botpool.client.errors import (
    BotEnded,
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
    NotValid,
    Refused,
    ResponseLost,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    Unreachable,
    WaitedTooLong,
)
from botpool.client.records import (
    Artifact,
    AuditEntry,
    BackendHealth,
    Bot,
    Change,
    Command,
    CreatedBy,
    Delivery,
    Event,
    Page,
    Plan,
    PlanPolicy,
    Pool,
    QueueEntry,
    RecoveryResult,
    Reset,
    Screenshot,
    Slot,
    SlotEvent,
    Webhook,
)

__all__ = [
    "Artifact",
    "AuditEntry",
    "BackendHealth",
    "Bot",
    "BotEnded",
    "Change",
    "Client",
    "ClientError",
    "Command",
    "Conflict",
    "CreatedBy",
    "Delivery",
    "Event",
    "Forbidden",
    "NotFound",
    "NotValid",
    "Page",
    "Plan",
    "PlanPolicy",
    "Pool",
    "QueueEntry",
    "RecoveryResult",
    "Refused",
    "Reset",
    "Response",
    "ResponseLost",
    "Screenshot",
    "Slot",
    "SlotEvent",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "Unreachable",
    "WaitedTooLong",
    "Webhook",
]
