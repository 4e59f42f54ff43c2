"""Who plays: the bots of the demo, how each behaves, and how each must end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botpool.domain.states import BotStatus, FailureCode

PLATFORM = "google-meet"
SLOTS = 4
FIRST_START_S = 3.0
LATER_START_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One bot: what is asked for it, and what must become of it."""

    name: str
    data: Mapping[str, Any]
    priority: int = 100
    status: BotStatus = BotStatus.DONE
    failure_code: FailureCode | None = None

    @property
    def crashes(self) -> bool:
        return self.failure_code is FailureCode.CONTAINER_EXITED

    @property
    def hurries(self) -> bool:
        return self.priority < 100


def _stays(name: str, seconds: float) -> Part:
    return Part(name=name, data={"joinSeconds": 0.5, "staySeconds": seconds})


CAST = (
    _stays("Ada", 4.0),
    _stays("Bela", 2.5),
    Part(
        name="Crash",
        data={"joinSeconds": 1, "crash": True},
        status=BotStatus.FAILED,
        failure_code=FailureCode.CONTAINER_EXITED,
    ),
    _stays("Dora", 5.0),
    _stays("Emil", 2.0),
    _stays("Fay", 3.0),
    Part(
        name="Guest",
        data={"joinSeconds": 1, "reject": True},
        status=BotStatus.FAILED,
        failure_code=FailureCode.MEETING_FAILED,
    ),
    _stays("Hana", 2.0),
    _stays("Ivo", 2.5),
    _stays("June", 1.5),
    _stays("Kai", 2.0),
    Part(name="Vip", data={"joinSeconds": 0.5, "staySeconds": 2.0}, priority=1),
)
"""Sent in this order: four get slots, eight wait, and the last of them goes first."""
