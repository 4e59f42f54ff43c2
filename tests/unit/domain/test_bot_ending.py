"""Endings of bots and reports of agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.bot_ending import ending_after_deadline, ending_after_exit, is_applicable
from botpool.domain.states import FINAL, RUNNING, BotStatus, FailureCode


@pytest.mark.parametrize("status", BotStatus)
def test_ending_after_container_exit(status: BotStatus) -> None:
    unasked = ending_after_exit(status, asked_to_leave=False, detail="exited with code 1")
    if status is BotStatus.CALL_ENDED:
        assert unasked.status is BotStatus.DONE
    else:
        assert unasked.failure_code is FailureCode.CONTAINER_EXITED
        assert (
            ending_after_exit(status, asked_to_leave=True, detail="").status is BotStatus.CANCELLED
        )


def test_ending_after_maximum_duration() -> None:
    def ending(status: BotStatus, *, asked: bool) -> tuple[BotStatus, FailureCode | None]:
        end = ending_after_deadline(status, asked_to_leave=asked, max_duration_s=1)
        return end.status, end.failure_code

    assert ending(BotStatus.IN_CALL, asked=False) == (BotStatus.FAILED, FailureCode.MAX_DURATION)
    assert ending(BotStatus.LEAVING, asked=True) == (BotStatus.CANCELLED, None)
    assert ending(BotStatus.CALL_ENDED, asked=True) == (BotStatus.DONE, None)


@given(st.sampled_from(BotStatus), st.sampled_from(BotStatus))
def test_late_and_backward_reports_do_not_apply(current: BotStatus, reported: BotStatus) -> None:
    applicable = is_applicable(reported, current=current)
    if current in FINAL:
        assert not applicable
    if applicable and current in RUNNING and reported in RUNNING:
        assert not is_applicable(current, current=reported), (
            "a transition and its reverse are not both forward"
        )
