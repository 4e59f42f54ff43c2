"""The estimate of a queued bot's wait."""

from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.wait_estimate import estimate_wait_ms


def test_wait_estimate_follows_mean_assignment_and_slots() -> None:
    assert estimate_wait_ms(1, ends=10, exposure_s=6000, slots=1) == 600_000
    assert estimate_wait_ms(3, ends=10, exposure_s=6000, slots=2) == 900_000
    assert estimate_wait_ms(1, ends=0, exposure_s=30, slots=3) == 10_000
    assert estimate_wait_ms(1, ends=0, exposure_s=0, slots=0) is None


@given(st.integers(1, 1000), st.integers(0, 100), st.floats(0.1, 1e6), st.integers(1, 100))
def test_wait_estimate_grows_with_position(
    position: int, ends: int, exposure_s: float, slots: int
) -> None:
    here = estimate_wait_ms(position, ends=ends, exposure_s=exposure_s, slots=slots)
    behind = estimate_wait_ms(position + 1, ends=ends, exposure_s=exposure_s, slots=slots)
    assert here is not None
    assert behind is not None
    assert behind >= here
