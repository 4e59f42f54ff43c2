"""Records of the API's responses, by subject."""

from botpool.client.records.administration import AuditEntry, Key, Tenant
from botpool.client.records.bots import (
    Artifact,
    Bot,
    Command,
    CreatedBy,
    QueueEntry,
    Screenshot,
    TimelineBar,
)
from botpool.client.records.events import Change, Event, Reset, SlotEvent
from botpool.client.records.pools import (
    BackendHealth,
    Booking,
    OnTimeScore,
    Pacing,
    Plan,
    PlanPolicy,
    Pool,
    PoolSample,
    Schedule,
    ScheduleSlice,
    WarmFloors,
)
from botpool.client.records.reading import Page, read
from botpool.client.records.rollouts import (
    Comparison,
    MeasureComparison,
    Revision,
    RevisionFigures,
    Rollout,
    Tally,
)
from botpool.client.records.slots import Assignment, CleanupResult, RecoveryResult, Slot
from botpool.client.records.webhooks import Delivery, Webhook

__all__ = [
    "Artifact",
    "Assignment",
    "AuditEntry",
    "BackendHealth",
    "Booking",
    "Bot",
    "Change",
    "CleanupResult",
    "Command",
    "Comparison",
    "CreatedBy",
    "Delivery",
    "Event",
    "Key",
    "MeasureComparison",
    "OnTimeScore",
    "Pacing",
    "Page",
    "Plan",
    "PlanPolicy",
    "Pool",
    "PoolSample",
    "QueueEntry",
    "RecoveryResult",
    "Reset",
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
    "WarmFloors",
    "Webhook",
    "read",
]
