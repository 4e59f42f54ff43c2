"""How bots end: which reports an agent may make, and the ending of a bot without a last report."""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.states import FINAL, BotStatus, EndReason, FailureCode, can_transition

_SLOT_FAILURES = frozenset(
    {
        FailureCode.DEPLOY_FAILED,
        FailureCode.CONTAINER_EXITED,
        FailureCode.HEARTBEAT_LOST,
        FailureCode.INTERNAL,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BotEnding:
    """The final status of a bot, with its reason."""

    status: BotStatus
    reason: str
    failure_code: FailureCode | None = None
    end_reason: EndReason | None = None
    """Why the call ended, if the agent reports it with the end."""

    @property
    def slot_error(self) -> str | None:
        """The error that the bot's slot shows until its next bot; None if the slot did its work."""
        return self.reason if self.failure_code in _SLOT_FAILURES else None


def ending_after_exit(bot: BotStatus, *, asked_to_leave: bool, detail: str) -> BotEnding:
    """Return the ending of a bot whose container exited before its agent reported the end."""
    if bot is BotStatus.CALL_ENDED:
        return BotEnding(status=BotStatus.DONE, reason=reasons.EXITED_AFTER_CALL)
    if asked_to_leave:
        return BotEnding(status=BotStatus.CANCELLED, reason=reasons.LEFT_WHEN_ASKED)
    return BotEnding(
        status=BotStatus.FAILED,
        reason=reasons.container_exited(detail),
        failure_code=FailureCode.CONTAINER_EXITED,
    )


def ending_after_deadline(
    bot: BotStatus, *, asked_to_leave: bool, max_duration_s: float
) -> BotEnding:
    """Return the ending of a bot that Botpool stops at the end of its time."""
    if bot is BotStatus.CALL_ENDED:
        return BotEnding(status=BotStatus.DONE, reason=reasons.STOPPED_AFTER_CALL)
    if asked_to_leave:
        return BotEnding(status=BotStatus.CANCELLED, reason=reasons.DID_NOT_LEAVE)
    return BotEnding(
        status=BotStatus.FAILED,
        reason=reasons.max_duration_exceeded(max_duration_s),
        failure_code=FailureCode.MAX_DURATION,
    )


def reported_ending(
    status: BotStatus, reason: str | None, end_reason: EndReason | None = None
) -> BotEnding:
    """Return the ending that an agent reports with a final status."""
    if status is BotStatus.FAILED:
        is_blocked = end_reason is EndReason.BLOCKED
        return BotEnding(
            status=status,
            reason=reason or reasons.AGENT_REPORTED_FAILURE,
            failure_code=FailureCode.BLOCKED if is_blocked else FailureCode.MEETING_FAILED,
            end_reason=end_reason,
        )
    return BotEnding(status=status, reason=reasons.REPORTED_BY_AGENT, end_reason=end_reason)


def is_applicable(reported: BotStatus, *, current: BotStatus) -> bool:
    """Whether a report of the current agent changes its bot; late and backward ones do not."""
    return current not in FINAL and can_transition(current, reported)
