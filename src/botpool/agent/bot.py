"""The bot that this container runs, as the control plane describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from .errors import AgentError


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    id: int
    meeting_url: str
    """Empty if the slot was released."""
    bot_display_name: str
    platform: str
    correlation_id: str
    join_at: datetime | None
    """When a scheduled bot joins, by the control plane's clock; None: as soon as it can."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The complete JSON, for fields that this client does not know."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], *, released: bool) -> Self:
        return cls(
            id=int(raw["id"]),
            meeting_url="" if released else str(raw["meetingUrl"]),
            bot_display_name=str(raw["botDisplayName"]),
            platform=str(raw["platform"]),
            correlation_id=str(raw["correlationId"]),
            join_at=_time(raw.get("joinAt")),
            raw=raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The answer to the identity request."""

    bot: Bot
    bot_data: dict[str, Any]
    released: bool
    heartbeat_interval_s: float
    join_in_ms: float | None
    """How long a scheduled bot waits before it joins; None: it joins at once."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        try:
            released = bool(raw.get("released"))
            return cls(
                bot=Bot.from_json(raw["bot"], released=released),
                bot_data=dict(raw.get("botData") or {}),
                released=released,
                heartbeat_interval_s=float(raw["heartbeatIntervalMs"]) / 1000,
                join_in_ms=None if raw.get("joinInMs") is None else float(raw["joinInMs"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise AgentError(
                "The control plane's answer to the identity request is malformed "
                f"({type(error).__name__}: {error}). Check that its version fits this agent's."
            ) from error
