"""The Python client for Botpool's HTTP API.

    from botpool import Client

    with Client("http://127.0.0.1:8700", key) as botpool:
        bot = botpool.create("https://meet.google.com/abc-defg-hij", display_name="Scribe")
        bot = botpool.wait(bot.id, until={"IN_CALL"})
        botpool.stop(bot.id)
        print(botpool.wait(bot.id).status)

`AsyncClient` has the same calls for an event loop: `bot = await botpool.create(...)`.

The client retries a call when the connection fails, if a second execution does no harm; creating a
bot carries an idempotency key, so a retry creates no second bot. A refusal raises an exception of
its own type, with the server's explanation.
"""

from botpool.client.client import AsyncClient, Client
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
    Assignment,
    AuditEntry,
    BackendHealth,
    Booking,
    Bot,
    Change,
    CleanupResult,
    Command,
    Comparison,
    CreatedBy,
    Delivery,
    Event,
    Key,
    MeasureComparison,
    OnTimeScore,
    Pacing,
    Page,
    Plan,
    PlanPolicy,
    Pool,
    PoolSample,
    QueueEntry,
    RecoveryResult,
    Reset,
    Revision,
    RevisionFigures,
    Rollout,
    Schedule,
    ScheduleSlice,
    Screenshot,
    Slot,
    SlotEvent,
    Tally,
    Tenant,
    TimelineBar,
    WarmFloors,
    Webhook,
)
from botpool.client.responses import Response

__all__ = [
    "Artifact",
    "Assignment",
    "AsyncClient",
    "AuditEntry",
    "BackendHealth",
    "Booking",
    "Bot",
    "BotEnded",
    "Change",
    "CleanupResult",
    "Client",
    "ClientError",
    "Command",
    "Comparison",
    "Conflict",
    "CreatedBy",
    "Delivery",
    "Event",
    "Forbidden",
    "Key",
    "MeasureComparison",
    "NotFound",
    "NotValid",
    "OnTimeScore",
    "Pacing",
    "Page",
    "Plan",
    "PlanPolicy",
    "Pool",
    "PoolSample",
    "QueueEntry",
    "RecoveryResult",
    "Refused",
    "Reset",
    "Response",
    "ResponseLost",
    "Revision",
    "RevisionFigures",
    "Rollout",
    "Schedule",
    "ScheduleSlice",
    "Screenshot",
    "Slot",
    "SlotEvent",
    "Tally",
    "Tenant",
    "TimelineBar",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "Unreachable",
    "WaitedTooLong",
    "WarmFloors",
    "Webhook",
]
