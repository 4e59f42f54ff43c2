"""The lifecycle callbacks of Vexa's bots, translated to status reports of agents.

Vexa's bot posts its status to `meetingApiCallbackUrl`, with its token as `Authorization: Bearer`
(since 0.13.2) or as `x-internal-secret` (before). It repeats a callback that is not answered
with 2xx.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from botpool.api.auth import Service, VexaAssignment
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.opaque_json import require_storable
from botpool.api.patterns import NO_NUL
from botpool.api.problems import error_responses
from botpool.api.schemas import WholeNumber
from botpool.domain.errors import LimitExceeded
from botpool.domain.states import BotStatus, EndReason

_MAX_EVENT_BYTES = 8 * 1024
_LOG_LINES = 50
_STATUSES: Mapping[str, BotStatus] = {
    "joining": BotStatus.JOINING_CALL,
    "awaiting_admission": BotStatus.IN_WAITING_ROOM,
    "active": BotStatus.IN_CALL,
    "completed": BotStatus.DONE,
    "failed": BotStatus.FAILED,
}
"""`needs_help` is no status of Botpool: it is only an event."""
_END_REASONS: Mapping[str, EndReason] = {
    "stopped": EndReason.LEFT,
    "left_alone": EndReason.ALONE,
    "startup_alone": EndReason.ALONE,
    "evicted": EndReason.REMOVED,
    "awaiting_admission_timeout": EndReason.LOBBY_TIMEOUT,
    "awaiting_admission_rejected": EndReason.DENIED,
    "max_bot_time_exceeded": EndReason.LEFT,
}

routes = APIRouter(prefix="/v1/agent/vexa", tags=["containers"], route_class=AuthenticatedRoute)


class LifecycleEvent(BaseModel):
    """Vexa's lifecycle.v1 event. Fields that a newer bot adds are ignored."""

    model_config = ConfigDict(extra="ignore")

    connection_id: Annotated[str, Field(max_length=255, pattern=NO_NUL)] = ""
    status: Literal["joining", "awaiting_admission", "active", "needs_help", "completed", "failed"]
    reason: Annotated[str | None, Field(max_length=2000, pattern=NO_NUL)] = None
    exit_code: Annotated[int | None, Field(strict=True), WholeNumber] = None
    completion_reason: Annotated[str | None, Field(max_length=100, pattern=NO_NUL)] = None
    failure_stage: Annotated[str | None, Field(max_length=100, pattern=NO_NUL)] = None
    bot_logs: list[str] | None = None


class LifecycleResponse(BaseModel):
    status: Literal["ok"] = "ok"
    applied: bool


@routes.post("/status_change", responses=error_responses(400, 401, 404, 413, 415, 422, 503))
async def change_status(
    replica: Service, assignment: VexaAssignment, body: LifecycleEvent
) -> LifecycleResponse:
    """Report a status as Vexa's bots do. The token names the bot.

    A late or backward report changes nothing, and `applied` is false.
    """
    view = await replica.agents.find(assignment)
    bot_id = view.bot.id
    # The status counts even if the bot has sent too many events.
    with suppress(LimitExceeded):
        await replica.agents.record(assignment, bot_id, [(f"vexa.{body.status}", _details(body))])
    if (status := _STATUSES.get(body.status)) is None:
        await replica.agents.heartbeat(assignment, bot_id)
        return LifecycleResponse(applied=False)
    end_reason = _END_REASONS.get(body.completion_reason or "")
    if status is BotStatus.DONE and body.exit_code not in (None, 0):
        status = BotStatus.FAILED
    applied = await replica.agents.report(
        assignment,
        bot_id,
        status,
        _failure_of(body) if status is BotStatus.FAILED else None,
        end_reason if status in (BotStatus.DONE, BotStatus.FAILED) else None,
    )
    return LifecycleResponse(applied=applied)


def _failure_of(body: LifecycleEvent) -> str:
    parts = [body.reason or body.completion_reason or "The bot reported a failure"]
    if body.failure_stage:
        parts.append(f"stage {body.failure_stage}")
    if body.exit_code is not None:
        parts.append(f"exit code {body.exit_code}")
    return ", ".join(parts)


def _details(body: LifecycleEvent) -> dict[str, Any]:
    """Return the event for the history, with the end of the log if it fits."""
    details = body.model_dump(exclude_none=True, exclude={"bot_logs", "status"})
    try:
        return require_storable(
            details | {"bot_logs": (body.bot_logs or [])[-_LOG_LINES:]}, _MAX_EVENT_BYTES
        )
    except ValueError:
        return details
