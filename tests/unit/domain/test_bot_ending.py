"""Endings of bots and reports of agents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.bot_ending import (
    BotEnding,
    ending_after_deadline,
    ending_after_exit,
    ending_after_finish_timeout,
    is_applicable,
)
from botpool.domain.communication import Outcome
from botpool.domain.states import FINAL, RUNNING, BotStatus, FailureCode


def after_exit(status: BotStatus, **changes: Any) -> BotEnding:
    case: dict[str, Any] = {
        "asked_to_leave": False,
        "finishing": False,
        "outcome": Outcome.REPORT,
        "exit_code": None,
        "detail": "exited",
    }
    return ending_after_exit(status, **(case | changes))


@pytest.mark.parametrize("status", BotStatus)
def test_ending_after_container_exit(status: BotStatus) -> None:
    if status is BotStatus.CALL_ENDED:
        assert after_exit(status).status is BotStatus.DONE
    else:
        assert after_exit(status).failure_code is FailureCode.CONTAINER_EXITED
        assert after_exit(status, asked_to_leave=True).status is BotStatus.CANCELLED


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("status", [BotStatus.CALL_ENDED, BotStatus.LEAVING, BotStatus.IN_CALL])
def test_crash_while_finishing_is_no_success(status: BotStatus, asked: bool) -> None:
    def ending(exit_code: int | None) -> BotEnding:
        return after_exit(status, finishing=True, asked_to_leave=asked, exit_code=exit_code)

    assert ending(0).status is BotStatus.DONE
    assert ending(None).status is BotStatus.DONE
    for crash in (1, 137):
        assert ending(crash).failure_code is FailureCode.CONTAINER_EXITED


def test_exit_code_decides_where_the_pool_says_so() -> None:
    def ending(exit_code: int | None, **changes: Any) -> BotEnding:
        return after_exit(
            BotStatus.JOINING_CALL, outcome=Outcome.EXIT_CODE, exit_code=exit_code, **changes
        )

    assert ending(0).status is BotStatus.DONE
    assert ending(0, asked_to_leave=True, finishing=True).status is BotStatus.DONE
    failed = ending(3, output="no such meeting")
    assert failed.failure_code is FailureCode.CONTAINER_EXITED
    assert failed.reason.endswith("no such meeting")
    assert ending(None).failure_code is FailureCode.CONTAINER_EXITED
    asked = {"asked_to_leave": True, "finishing": True}
    assert ending(3, **asked).failure_code is FailureCode.CONTAINER_EXITED
    assert ending(143, **asked).status is BotStatus.CANCELLED, "killed by the signal to leave"
    assert ending(143).failure_code is FailureCode.CONTAINER_EXITED


def test_ending_after_deadlines() -> None:
    unasked = ending_after_deadline(asked_to_leave=False, max_duration_s=1)
    assert unasked.failure_code is FailureCode.MAX_DURATION
    asked = ending_after_deadline(asked_to_leave=True, max_duration_s=1)
    assert asked.status is BotStatus.CANCELLED
    hanging = ending_after_finish_timeout(900, {"bytesUploaded": 17})
    assert hanging.failure_code is FailureCode.FINISH_TIMEOUT
    assert '{"bytesUploaded": 17}' in hanging.reason
    assert "no progress" in ending_after_finish_timeout(900, None).reason


@given(st.sampled_from(BotStatus), st.sampled_from(BotStatus))
def test_late_and_backward_reports_do_not_apply(current: BotStatus, reported: BotStatus) -> None:
    applicable = is_applicable(reported, current=current)
    if current in FINAL:
        assert not applicable
    if applicable and current in RUNNING and reported in RUNNING:
        assert not is_applicable(current, current=reported), (
            "a transition and its reverse are not both forward"
        )
