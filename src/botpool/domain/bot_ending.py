"""How bots end: which reports an agent may make, and the ending of a bot without a last report."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botpool.domain import reasons
from botpool.domain.communication import Outcome
from botpool.domain.states import FINAL, BotStatus, EndReason, FailureCode, can_transition

_SLOT_FAILURES = frozenset(
    {
        FailureCode.DEPLOY_FAILED,
        FailureCode.CONTAINER_EXITED,
        FailureCode.HEARTBEAT_LOST,
        FailureCode.INTERNAL,
    }
)
BEFORE_CALL = frozenset({BotStatus.JOINING_CALL, BotStatus.IN_WAITING_ROOM})
"""Statuses of a bot that runs and is not in the call yet."""
_KILLED_BY_SIGTERM = 128 + signal.SIGTERM
_MAX_PROGRESS = 500


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


def ending_after_exit(
    bot: BotStatus,
    *,
    asked_to_leave: bool,
    finishing: bool,
    outcome: Outcome,
    exit_code: int | None,
    detail: str,
    output: str = "",
    infrastructure_fault: str = "",
) -> BotEnding:
    """Return the ending of a bot whose container exited before its agent reported the end.

    After the call, an exit without a known code counts as success, because some backends name no
    code. Where the exit code decides, only 0 is a success. After an infrastructure fault no exit
    code is a success: a program may exit with 0 because it was terminated. `output` has the last
    lines of the container's output.
    """
    call_is_over = finishing or bot is BotStatus.CALL_ENDED
    left_by_signal = asked_to_leave and exit_code == _KILLED_BY_SIGTERM
    has_succeeded = exit_code in (0, None) and not infrastructure_fault
    if outcome is Outcome.EXIT_CODE:
        if has_succeeded and exit_code is not None:
            return BotEnding(status=BotStatus.DONE, reason=reasons.EXITED_WITH_SUCCESS)
    elif call_is_over and has_succeeded:
        return BotEnding(status=BotStatus.DONE, reason=reasons.EXITED_AFTER_CALL)
    elif asked_to_leave and not call_is_over:
        return BotEnding(status=BotStatus.CANCELLED, reason=reasons.LEFT_WHEN_ASKED)
    if left_by_signal and bot is not BotStatus.CALL_ENDED:
        return BotEnding(status=BotStatus.CANCELLED, reason=reasons.LEFT_WHEN_ASKED)
    return BotEnding(
        status=BotStatus.FAILED,
        reason=reasons.container_exited(infrastructure_fault or detail, output),
        failure_code=FailureCode.CONTAINER_EXITED,
    )


def is_retried_after_fault(bot: BotStatus, *, asked_to_leave: bool, outcome: Outcome) -> bool:
    """Whether a bot is retried whose run an infrastructure fault ended: it was not in the call.

    A program whose exit code decides reports no status, so it may have been in the call.
    """
    return bot in BEFORE_CALL and not asked_to_leave and outcome is not Outcome.EXIT_CODE


def ending_after_deadline(*, asked_to_leave: bool, max_duration_s: float) -> BotEnding:
    """Return the ending of a bot that Botpool stops: it did not leave in time, or ran too long."""
    if asked_to_leave:
        return BotEnding(status=BotStatus.CANCELLED, reason=reasons.DID_NOT_LEAVE)
    return BotEnding(
        status=BotStatus.FAILED,
        reason=reasons.max_duration_exceeded(max_duration_s),
        failure_code=FailureCode.MAX_DURATION,
    )


def ending_after_finish_timeout(
    finish_timeout_s: float, progress: Mapping[str, Any] | None
) -> BotEnding:
    """Return the ending of a bot that did not finish after its call, with its last progress."""
    text = json.dumps(progress, ensure_ascii=False)[:_MAX_PROGRESS] if progress else None
    return BotEnding(
        status=BotStatus.FAILED,
        reason=reasons.not_finished(finish_timeout_s, text),
        failure_code=FailureCode.FINISH_TIMEOUT,
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
