"""Reads the header `Retry-After` of a backend's response."""

import email.utils
import time


def retry_after_s(header: str, *, default_s: float, at_least_s: float, at_most_s: float) -> float:
    """Return the pause that the header asks for, in seconds or as a date, within the limits."""
    if header.strip().isdecimal():
        seconds = float(header)
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            seconds = default_s
    return min(max(seconds, at_least_s), at_most_s)
