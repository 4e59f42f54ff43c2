"""Limits for callers and agents. Each names the setting that a refusal mentions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A token bucket: `burst` tokens at most, and `per_minute` new ones each minute.

    `per_minute` of 0 means no limit.
    """

    limit: str
    """The setting that a refusal names."""
    per_minute: int
    burst: int


def tenant_posts(per_minute: int) -> Rate:
    """The rate of requests for bots of a tenant with this quota: a minute's requests at once."""
    return Rate(limit="the tenant's postsPerMinute", per_minute=per_minute, burst=per_minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """How many events one assignment may send; `per_minute` of 0 means no limit of the rate."""

    count: int = 5_000
    bytes: int = 8 * 1024 * 1024
    per_minute: int = 600
    burst: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits for callers and agents. The defaults are those of the settings."""

    requests: Rate = Rate(limit="limits.requests_per_minute", per_minute=12_000, burst=2_000)
    posts: Rate = Rate(limit="limits.posts_per_minute", per_minute=600, burst=1_000)
    events: EventLimits = EventLimits()
    queue_length: int = 10_000
    """How many bots may wait in one pool."""
