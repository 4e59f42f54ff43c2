"""Nothing alive is killed: every end of a bot has its cause in the world of the schedule."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from botpool.domain.ids import BotId
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus

ENDS = """
SELECT
    id, status, failure_code, attempts, queue_timeout_ms / 1000.0::float8 AS patience_s,
    extract(epoch FROM botpool_now() - ended_at)::float8 AS ended_ago_s,
    extract(epoch FROM ended_at - created_at)::float8 AS age_s,
    extract(epoch FROM ended_at - started_at)::float8 AS ran_s
FROM bots
WHERE ended_at IS NOT NULL
ORDER BY id
"""


_SAME_S = 0.01


class Causes:
    """What could end a bot, by those who did it or saw it happen."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.said: dict[BotId, set[BotStatus]] = defaultdict(set)
        """What its agent was about to report."""
        self.stop_asked: set[BotId] = set()
        self.operated = False
        """An operator pulled a lever on some slot."""
        self.beat_at: dict[BotId, float] = {}
        """When the last heartbeat that was taken had been sent."""

    def explain(
        self, end: Mapping[str, Any], *, now: float, down_at: Mapping[BotId, float]
    ) -> bool:
        """Was there a reason for this end? `now`: when the row was read.

        `down_at`: when a container of the bot had first ended, whatever ended it.
        """
        bot, policy = end["id"], self._policy
        # Time is in ticks: what differs by less is the same moment, written with other digits.
        ended_at = now - end["ended_ago_s"] + _SAME_S
        silent_s = ended_at - self.beat_at.get(bot, 0.0)
        causes = {
            "DONE": BotStatus.DONE in self.said[bot],
            "CANCELLED": bot in self.stop_asked,
            "queue_timeout": end["age_s"] + _SAME_S >= end["patience_s"],
            "deploy_failed": end["attempts"] == policy.deploy_attempts,
            "heartbeat_lost": silent_s > policy.recovery.heartbeat_freshness_s,
            "container_exited": down_at.get(bot, ended_at + 1) <= ended_at,
            "max_duration": (end["ran_s"] or 0.0) >= policy.max_duration_s,
            "meeting_failed": BotStatus.FAILED in self.said[bot],
            "operator": self.operated,
        }
        return causes.get(end["failure_code"] or end["status"], False)
