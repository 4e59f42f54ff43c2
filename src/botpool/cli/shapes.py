"""What the API answers, as far as the command line reads it.

Plain typed dictionaries: a server that adds a field breaks no client, and reading costs nothing.
`tests/unit/cli/test_shapes.py` holds them against the API's own models.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, get_args, get_origin, get_type_hints, is_typeddict


class Bot(TypedDict):
    id: int
    correlationId: str
    platform: str
    meetingUrl: str
    botDisplayName: str
    status: str
    priority: int
    slotName: str | None
    containerId: str | None
    attempts: int
    failureReason: str | None
    failureCode: str | None
    createdAt: str
    queuedAt: str | None
    assignedAt: str | None
    startedAt: str | None
    lastHeartbeatAt: str | None
    endedAt: str | None


class BotAnswer(TypedDict):
    bot: Bot
    queuePosition: NotRequired[int]
    estimatedWaitMs: NotRequired[int]


class BotPage(TypedDict):
    bots: list[Bot]
    nextCursor: str | None


Event = TypedDict(
    "Event",
    {
        "at": str,
        "kind": str,
        "from": str | None,
        "to": str | None,
        "slotName": str | None,
        "reason": str,
        "data": Mapping[str, Any] | None,
    },
)


class SlotEvent(Event):
    botId: int | None  # noqa: N815 - the API's name; ruff does not see a TypedDict here


class Events(TypedDict):
    events: list[Event]


class SlotHistory(TypedDict):
    events: list[SlotEvent]


class QueueEntry(TypedDict):
    botId: int
    platform: str
    priority: int
    position: int
    queuedAt: str
    timeoutAt: str
    estimatedWaitMs: int | None


class Queue(TypedDict):
    queue: list[QueueEntry]


class Slot(TypedDict):
    id: int
    name: str
    platform: str
    status: str
    phase: str | None
    assignedBotId: int | None
    containerId: str | None
    image: str
    lastAssignedAt: str | None
    lastReleasedAt: str | None
    lastUsedAt: str | None
    recoveryAttempts: int
    skippedRecoveries: int
    errorMessage: str | None
    cordoned: bool
    createdAt: str


class Slots(TypedDict):
    slots: list[Slot]


class SlotAnswer(TypedDict):
    slot: Slot


class Recovered(TypedDict):
    recovered: int
    failed: int
    deleted: int
    skipped: int


class BackendHealth(TypedDict):
    ok: bool
    detail: str


class Pool(TypedDict):
    platform: str
    backend: str
    backendHealth: BackendHealth
    image: str
    size: int
    maxSize: int
    slotsByStatus: dict[str, int]
    queueDepth: int
    oldestWaitMs: int | None
    warmHitRatio: float | None
    timeToRunningP50Ms: int | None
    timeToRunningP95Ms: int | None
    drained: bool


class Pools(TypedDict):
    pools: list[Pool]


class PoolAnswer(TypedDict):
    pool: Pool


def missing_part(value: object, shape: Any, path: str = "") -> str | None:
    """The first part of a shape that a value lacks, by its path; None when it is whole."""
    if get_origin(shape) is list:
        if not isinstance(value, list):
            return path or "a list"
        (item,) = get_args(shape)
        found = (missing_part(each, item, f"{path}.{n}") for n, each in enumerate(value))
        return next((part for part in found if part), None)
    if not is_typeddict(shape):
        return None
    if not isinstance(value, dict):
        return path or "an object"
    for name, kind in get_type_hints(shape).items():
        here = f"{path}.{name}".lstrip(".")
        if name in value:
            if part := missing_part(value[name], kind, here):
                return part
        elif name in shape.__required_keys__:
            return here
    return None
