"""The estimate of a queued bot's wait."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQueue:
    """The weight of a waiting tenant, and the number of its queued bots."""

    weight: int
    bots: int


def position_among_tenants(position: int, tenant: str, waiting: Mapping[str, TenantQueue]) -> int:
    """Return how many bots of all tenants are served up to a position of one tenant's queue.

    Slots go to the tenants in proportion to their weights, as long as each has bots. `waiting` is
    empty if only one tenant waits.
    """
    own = waiting.get(tenant)
    if own is None:
        return position
    others = (each for name, each in waiting.items() if name != tenant)
    return position + sum(min(o.bots, position * o.weight // own.weight) for o in others)


def estimate_wait_ms(position: int, *, ends: int, exposure_s: float, slots: int) -> int | None:
    """Estimate the wait of the bot at `position` from how long bots keep their slots.

    `exposure_s` is the total time of the finished assignments (`ends` of them) and of those under
    way; `exposure_s / ends` is the maximum-likelihood mean length of an assignment. `slots`
    assignments end in parallel. Without a measured assignment there is no estimate.
    """
    if slots == 0 or exposure_s <= 0:
        return None
    mean_assignment_s = exposure_s / max(ends, 1)
    return round(position * mean_assignment_s / slots * 1000)
