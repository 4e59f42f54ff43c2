"""Checks that every final status has a cause in the schedule."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from botpool.domain.ids import BotId
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus

ENDS = """
SELECT
    id, status, failure_code, attempts, queue_timeout_ms / 1000.0::float8 AS queue_timeout_s,
    extract(epoch FROM botpool_now() - ended_at)::float8 AS ended_ago_s,
    extract(epoch FROM ended_at - created_at)::float8 AS age_s,
    extract(epoch FROM ended_at - started_at)::float8 AS ran_s
FROM bots
WHERE ended_at IS NOT NULL
ORDER BY id
"""


_SAME_S = 0.01


class EndCauses:
    """Records every event of a schedule that may end a bot."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.reported: dict[BotId, set[BotStatus]] = defaultdict(set)
        """The final statuses that the bot's agent reported, or tried to report."""
        self.called: set[BotId] = set()
        """Bots whose agents called a replica: a container that ends then is not started again."""
        self.stop_requested: set[BotId] = set()
        self.operator_intervened = False
        """An operator took some slot from its bot."""
        self.heartbeat_at: dict[BotId, float] = {}
        """When the agent sent the last heartbeat that a replica accepted."""

    def explain(
        self, end: Mapping[str, Any], *, now: float, down_at: Mapping[BotId, float]
    ) -> bool:
        """Return whether the bot's final status has a cause.

        `now`: when the row was read. `down_at`: when a container of the bot first ended.
        """
        bot, policy = end["id"], self._policy
        # Virtual time advances in ticks, so a smaller difference comes from rounding.
        ended_at = now - end["ended_ago_s"] + _SAME_S
        silence_s = ended_at - self.heartbeat_at.get(bot, 0.0)
        causes = {
            "DONE": BotStatus.DONE in self.reported[bot],
            "CANCELLED": bot in self.stop_requested,
            "queue_timeout": end["age_s"] + _SAME_S >= end["queue_timeout_s"],
            "deploy_failed": end["attempts"] == policy.deploy_attempts or bot in self.called,
            "heartbeat_lost": silence_s > policy.recovery.heartbeat_freshness_s,
            "container_exited": down_at.get(bot, ended_at + 1) <= ended_at,
            "max_duration": (end["ran_s"] or 0.0) >= policy.max_duration_s,
            "meeting_failed": BotStatus.FAILED in self.reported[bot],
            "operator": self.operator_intervened,
        }
        return causes.get(end["failure_code"] or end["status"], False)
