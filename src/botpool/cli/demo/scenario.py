"""The bots of the demo: how each behaves, and how each must end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botpool.domain.states import BotStatus, FailureCode

PLATFORM = "google-meet"
SLOTS = 4
FIRST_START_S = 3.0
LATER_START_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoBot:
    """A bot to send, with its expected end."""

    name: str
    data: Mapping[str, Any]
    priority: int = 100
    status: BotStatus = BotStatus.DONE
    failure_code: FailureCode | None = None

    @property
    def crashes(self) -> bool:
        return self.failure_code is FailureCode.CONTAINER_EXITED

    @property
    def goes_first(self) -> bool:
        return self.priority < 100


def _joining_bot(name: str, seconds: float) -> DemoBot:
    return DemoBot(name=name, data={"joinSeconds": 0.5, "staySeconds": seconds})


def _failing_bot(name: str, fault: str, code: FailureCode) -> DemoBot:
    data = {"joinSeconds": 1, fault: True}
    return DemoBot(name=name, data=data, status=BotStatus.FAILED, failure_code=code)


BOTS = (
    _joining_bot("Ada", 4.0),
    _joining_bot("Bela", 2.5),
    _failing_bot("Crash", "crash", FailureCode.CONTAINER_EXITED),
    _joining_bot("Dora", 5.0),
    _joining_bot("Emil", 2.0),
    _joining_bot("Fay", 3.0),
    _failing_bot("Guest", "reject", FailureCode.MEETING_FAILED),
    _joining_bot("Hana", 2.0),
    _joining_bot("Ivo", 2.5),
    _joining_bot("June", 1.5),
    _joining_bot("Kai", 2.0),
    DemoBot(name="Vip", data={"joinSeconds": 0.5, "staySeconds": 2.0}, priority=1),
)
"""Sent in this order: four get slots, eight are queued, and the last of these goes first."""
