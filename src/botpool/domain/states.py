"""The state machines of bots and slots, each declared in one table.

`tests/store/test_schema.py` checks that the triggers of the database allow the same transitions.
"""

from collections.abc import Mapping
from enum import StrEnum


class BotStatus(StrEnum):
    SCHEDULED = "SCHEDULED"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    DEPLOYING = "DEPLOYING"
    JOINING_CALL = "JOINING_CALL"
    IN_WAITING_ROOM = "IN_WAITING_ROOM"
    IN_CALL = "IN_CALL"
    LEAVING = "LEAVING"
    CALL_ENDED = "CALL_ENDED"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class SlotStatus(StrEnum):
    IDLE = "idle"
    DEPLOYING = "deploying"
    BUSY = "busy"
    RELEASING = "releasing"
    ERROR = "error"
    DELETING = "deleting"


class SlotPhase(StrEnum):
    """The phase of a deploying slot, in the order of the steps.

    `handing_over` replaces them if a standby has the bot, and did not accept it yet.
    """

    CREATING = "creating"
    WAITING_FOR_IMAGE = "waiting_for_image"
    WAITING_FOR_START = "waiting_for_start"
    STARTING = "starting"
    HANDING_OVER = "handing_over"


class Standby(StrEnum):
    """The state of a slot's container that runs without a bot.

    - `starting`: no poll of its agent is open
    - `ready`: its agent waits for a bot with an open poll
    - `stopping`: Botpool stops it
    - `pulling`: it only brings the image of a rollout to the image host, and never gets a bot
    """

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    PULLING = "pulling"


class FailureCode(StrEnum):
    """Why a bot failed.

    - `queue_timeout`: no slot became free before the bot's deadline
    - `deploy_failed`: the container did not start, and no attempt remains
    - `heartbeat_lost`: the bot ran, then its heartbeats stopped
    - `container_exited`: the container exited before the bot reported its end
    - `max_duration`: the bot reached `bots.max_duration_s`
    - `finish_timeout`: the call ended, but the bot did not finish in `finish_timeout_s`
    - `meeting_failed`: the agent reported a failure, such as a refusal by the host
    - `blocked`: the agent reported that the meeting's provider blocks the bot
    - `operator`: an operator released, recovered or deleted the slot
    - `internal`: an unexpected error in Botpool, which is in its log
    """

    QUEUE_TIMEOUT = "queue_timeout"
    DEPLOY_FAILED = "deploy_failed"
    HEARTBEAT_LOST = "heartbeat_lost"
    CONTAINER_EXITED = "container_exited"
    MAX_DURATION = "max_duration"
    FINISH_TIMEOUT = "finish_timeout"
    MEETING_FAILED = "meeting_failed"
    BLOCKED = "blocked"
    OPERATOR = "operator"
    INTERNAL = "internal"


class EndReason(StrEnum):
    """Why a bot's call ended, as its agent reports it.

    - `denied`: the host refused the bot
    - `lobby_timeout`: the host did not admit the bot from the waiting room
    - `removed`: a participant removed the bot from the call
    - `alone`: the other participants did not come, or left
    - `meeting_ended`: the meeting was over
    - `sign_in_required`: the meeting admits only signed-in participants
    - `blocked`: the meeting's provider blocks the bot, for example with a captcha
    - `left`: the bot left because it was asked to
    - `unknown`: the agent does not know
    """

    DENIED = "denied"
    LOBBY_TIMEOUT = "lobby_timeout"
    REMOVED = "removed"
    ALONE = "alone"
    MEETING_ENDED = "meeting_ended"
    SIGN_IN_REQUIRED = "sign_in_required"
    BLOCKED = "blocked"
    LEFT = "left"
    UNKNOWN = "unknown"


_B = BotStatus
_S = SlotStatus

FINAL = frozenset({_B.DONE, _B.FAILED, _B.CANCELLED})
"""Final statuses: late reports and results do not change them."""

RUNNING = frozenset({_B.JOINING_CALL, _B.IN_WAITING_ROOM, _B.IN_CALL, _B.LEAVING, _B.CALL_ENDED})
"""Statuses of a bot whose container is known to run."""

WITH_BOT = frozenset({_S.DEPLOYING, _S.BUSY, _S.RELEASING})
"""The statuses in which a slot has a bot."""

BOT_TRANSITIONS: Mapping[BotStatus, frozenset[BotStatus]] = {
    _B.SCHEDULED: frozenset({_B.PENDING, _B.FAILED, _B.CANCELLED}),
    _B.PENDING: frozenset({_B.QUEUED, _B.DEPLOYING, _B.FAILED, _B.CANCELLED}),
    _B.QUEUED: frozenset({_B.SCHEDULED, _B.DEPLOYING, _B.FAILED, _B.CANCELLED}),
    _B.DEPLOYING: frozenset({_B.QUEUED, _B.JOINING_CALL, _B.FAILED, _B.CANCELLED}),
    _B.JOINING_CALL: frozenset(
        {_B.DEPLOYING, _B.IN_WAITING_ROOM, _B.IN_CALL, _B.LEAVING, _B.CALL_ENDED}
    )
    | FINAL,
    _B.IN_WAITING_ROOM: frozenset({_B.DEPLOYING, _B.IN_CALL, _B.LEAVING, _B.CALL_ENDED}) | FINAL,
    _B.IN_CALL: frozenset({_B.LEAVING, _B.CALL_ENDED}) | FINAL,
    _B.LEAVING: frozenset({_B.CALL_ENDED}) | FINAL,
    _B.CALL_ENDED: FINAL,
    _B.DONE: frozenset(),
    _B.FAILED: frozenset(),
    _B.CANCELLED: frozenset(),
}
"""Back to DEPLOYING: the infrastructure ended the run before the call, and the bot is retried."""

SLOT_TRANSITIONS: Mapping[SlotStatus, frozenset[SlotStatus]] = {
    _S.IDLE: frozenset({_S.DEPLOYING, _S.ERROR, _S.DELETING}),
    _S.DEPLOYING: frozenset({_S.BUSY, _S.RELEASING}),
    _S.BUSY: frozenset({_S.RELEASING}),
    _S.RELEASING: frozenset({_S.IDLE, _S.ERROR, _S.DEPLOYING}),
    _S.ERROR: frozenset({_S.IDLE, _S.DELETING}),
    _S.DELETING: frozenset(),
}
"""`releasing → deploying` for the next bot is two transitions in one transaction, over `idle`. The
direct transition keeps the bot: it starts cold after its standby did not accept it."""


def can_transition(current: BotStatus, wanted: BotStatus) -> bool:
    """Whether a bot may change from one status to another."""
    return wanted in BOT_TRANSITIONS[current]


def statuses_before(wanted: BotStatus) -> frozenset[BotStatus]:
    """Return the statuses from which a bot may become `wanted`; for the WHERE of an UPDATE."""
    return frozenset(status for status, targets in BOT_TRANSITIONS.items() if wanted in targets)
