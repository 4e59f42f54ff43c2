"""The tables of moves, and what must be true of any such table."""

from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.states import (
    BOT_TRANSITIONS,
    FINAL,
    RUNNING,
    SLOT_TRANSITIONS,
    BotStatus,
    SlotStatus,
    can_transition,
    statuses_before,
)

bots = st.sampled_from(BotStatus)


@given(bots, bots)
def test_statuses_before_is_the_inverse_of_transitions(
    current: BotStatus, wanted: BotStatus
) -> None:
    assert (current in statuses_before(wanted)) == can_transition(current, wanted)


@given(bots)
def test_final_statuses_have_no_transitions(wanted: BotStatus) -> None:
    assert not any(can_transition(final, wanted) for final in FINAL)


@given(bots)
def test_final_status_is_reachable_from_every_status(current: BotStatus) -> None:
    """FAILED and CANCELLED from anywhere that is not final already."""
    for end in (BotStatus.FAILED, BotStatus.CANCELLED):
        assert can_transition(current, end) == (current not in FINAL)


@given(bots, bots)
def test_only_running_bot_can_be_done(current: BotStatus, wanted: BotStatus) -> None:
    if can_transition(current, BotStatus.DONE):
        assert current in RUNNING


_REPEATED = {
    BotStatus.SCHEDULED,
    BotStatus.PENDING,
    BotStatus.QUEUED,
    BotStatus.DEPLOYING,
    BotStatus.JOINING_CALL,
    BotStatus.IN_WAITING_ROOM,
}


@given(st.lists(bots, max_size=12))
def test_only_a_retry_or_a_new_join_time_returns_to_an_earlier_status(
    walk: list[BotStatus],
) -> None:
    """Forward only, except that an attempt is tried again, or a queued bot gets a new time."""
    current, seen = BotStatus.PENDING, {BotStatus.PENDING}
    for wanted in walk:
        if can_transition(current, wanted):
            current = wanted
            if current not in _REPEATED:
                assert current not in seen
            seen.add(current)


def test_transition_table_covers_every_status() -> None:
    assert set(BOT_TRANSITIONS) == set(BotStatus)
    assert set(SLOT_TRANSITIONS) == set(SlotStatus)


def test_slot_is_released_before_next_bot() -> None:
    """A slot reaches its next bot through `idle` only, and `idle` not from a running state.

    From `releasing`, the same attempt of the same bot may start again, without its standby.
    """
    assert [
        slot for slot, targets in SLOT_TRANSITIONS.items() if SlotStatus.DEPLOYING in targets
    ] == [SlotStatus.IDLE, SlotStatus.RELEASING]
    for running in (SlotStatus.DEPLOYING, SlotStatus.BUSY):
        assert SlotStatus.IDLE not in SLOT_TRANSITIONS[running]
