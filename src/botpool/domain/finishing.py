"""The phase `finishing`: a bot saves its recording between its call and its end.

The phase begins when the agent reports CALL_ENDED, or acknowledges a request to leave with a
heartbeat of the phase `finishing`. From then on neither the request's grace nor the maximum
duration ends the bot, only the deadline of this phase.
"""

from datetime import datetime, timedelta


def finish_deadline(
    *,
    finishing_at: datetime,
    progress_at: datetime | None,
    gap_ended_at: datetime,
    finish_timeout_s: float,
    running_at: datetime | None,
    max_duration_s: float,
) -> datetime:
    """Return when Botpool stops a bot that is finishing.

    The whole timeout counts from the begin of the phase. A change of the bot's progress restarts
    it, but not beyond the maximum duration of the bot (0: no maximum). So does the end of a gap in
    which Botpool could record no progress and no report.
    """
    timeout = timedelta(seconds=finish_timeout_s)
    first = finishing_at + timeout
    last = max(progress_at, gap_ended_at) if progress_at else gap_ended_at
    if last <= finishing_at:
        return first
    extended = last + timeout
    if max_duration_s and running_at is not None:
        extended = min(extended, running_at + timedelta(seconds=max_duration_s))
    return max(first, extended)
