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
def test_sources_are_the_moves_read_backwards(current: BotStatus, wanted: BotStatus) -> None:
    assert (current in statuses_before(wanted)) == can_transition(current, wanted)


@given(bots)
def test_final_means_final(wanted: BotStatus) -> None:
    assert not any(can_transition(final, wanted) for final in FINAL)


@given(bots)
def test_every_bot_can_end(current: BotStatus) -> None:
    """FAILED and CANCELLED from anywhere that is not final already."""
    for end in (BotStatus.FAILED, BotStatus.CANCELLED):
        assert can_transition(current, end) == (current not in FINAL)


@given(bots, bots)
def test_only_a_bot_that_runs_can_be_done(current: BotStatus, wanted: BotStatus) -> None:
    if can_transition(current, BotStatus.DONE):
        assert current in RUNNING


@given(st.lists(bots, max_size=12))
def test_no_walk_returns_to_where_it_was_except_by_a_retry(walk: list[BotStatus]) -> None:
    """Forward moves only: the one cycle is QUEUED and DEPLOYING, a deployment tried again."""
    current, seen = BotStatus.PENDING, {BotStatus.PENDING}
    for wanted in walk:
        if can_transition(current, wanted):
            current = wanted
            if current not in (BotStatus.QUEUED, BotStatus.DEPLOYING):
                assert current not in seen
            seen.add(current)


def test_every_status_has_its_row() -> None:
    assert set(BOT_TRANSITIONS) == set(BotStatus)
    assert set(SLOT_TRANSITIONS) == set(SlotStatus)


def test_nothing_is_handed_on_before_it_was_released() -> None:
    """A slot reaches its next bot through `idle` only, and `idle` not from a running state."""
    assert [
        slot for slot, targets in SLOT_TRANSITIONS.items() if SlotStatus.DEPLOYING in targets
    ] == [SlotStatus.IDLE]
    for running in (SlotStatus.DEPLOYING, SlotStatus.BUSY):
        assert SlotStatus.IDLE not in SLOT_TRANSITIONS[running]
