"""The optional contents of a heartbeat: what an agent tells about its bot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class AgentPhase(StrEnum):
    FINISHING = "finishing"
    """The bot has left the call and saves its recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReport:
    """The body of a heartbeat. A field that the agent did not send changes nothing."""

    phase: AgentPhase | None = None
    last_media_at: datetime | None = None
    """When the bot last recorded audio or video."""
    progress: Mapping[str, Any] | None = None
    """Free-form figures. A change of them shows that the bot makes progress."""
    acknowledged: Sequence[int] = ()
    """The ids of the commands that the bot has received."""

    @property
    def has_figures(self) -> bool:
        """Whether the heartbeat's row has to store more than its time."""
        return self.progress is not None or self.last_media_at is not None
