"""The estimate of a queued bot's wait."""


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
