"""Sizes of the tests that are worth running for minutes, and for hours.

`make test-long` runs them for minutes. `make soak` sets `BOTPOOL_TEST_SOAK` and runs the tests with
the mark `soak` for hours.
"""

import os

IS_SOAK = "BOTPOOL_TEST_SOAK" in os.environ


def long_or_soak(long: int, soak: int) -> int:
    """Choose the size of a test: for `make test-long` or for `make soak`."""
    return soak if IS_SOAK else long
