"""The configuration of a bot, as Meeboter's bots expect it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from botpool.api.meeboter.superjson import UNDEFINED
from botpool.domain.agent_views import AgentView
from botpool.domain.meeting_links import pool_name_of

_PLATFORMS = {"teams": "microsoft-teams"}
_AUTOMATIC_LEAVE = {
    "waitingRoomTimeout": 600_000,
    "noOneJoinedTimeout": 60_000,
    "everyoneLeftTimeout": 60_000,
    "inactivityTimeout": 300_000,
}
_LONGEST_S = 86_400.0
"""The time until `endTime` if bots have no maximum duration."""


def bot_config(view: AgentView, *, max_duration_s: float) -> dict[str, Any]:
    """Return the configuration of the agent's bot. Optional fields come from its `botData`.

    `startTime` is the start of the assignment: the bot leaves a fixed time after it.
    """
    bot, data = view.bot, view.bot_data
    started_at = bot.assigned_at or bot.created_at
    ends_at = started_at + timedelta(seconds=max_duration_s or _LONGEST_S)
    return {
        "id": bot.id,
        "userId": user_id(view),
        "meeting": {
            **_object(data, "meeting"),
            "meetingUrl": bot.meeting_url,
            "platform": _platform(view),
        },
        "startTime": started_at,
        "endTime": _time(data, "endTime") or ends_at,
        "displayName": bot.bot_display_name,
        "imageUrl": _text(data, "imageUrl"),
        "recordingEnabled": data.get("recordingEnabled") is True,
        "automaticLeave": _AUTOMATIC_LEAVE | _milliseconds(_object(data, "automaticLeave")),
        "callbackUrl": _text(data, "callbackUrl"),
    }


def user_id(view: AgentView) -> str:
    """Return the user in whose name the bot works: `botData.userId`, else the tenant."""
    found = view.bot_data.get("userId")
    return found if isinstance(found, str) else view.bot.tenant


def log_level(view: AgentView | None) -> str:
    """Return the level from which the bot sends its log: `botData.logLevel`, else INFO."""
    found = None if view is None else view.bot_data.get("logLevel")
    return found if isinstance(found, str) else "INFO"


def _platform(view: AgentView) -> str:
    pool_name = pool_name_of(view.bot.meeting_url) or view.bot.pool_name
    return _PLATFORMS.get(pool_name, pool_name)


def _object(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _text(data: Mapping[str, Any], name: str) -> Any:
    found = data.get(name)
    return found if isinstance(found, str) else UNDEFINED


def _time(data: Mapping[str, Any], name: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(data.get(name) or "")
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None


def _milliseconds(timeouts: Mapping[str, Any]) -> dict[str, int]:
    """Return the valid timeouts of those that the bot knows."""
    return {
        name: value
        for name, value in timeouts.items()
        if name in _AUTOMATIC_LEAVE and type(value) is int and value >= 0
    }
