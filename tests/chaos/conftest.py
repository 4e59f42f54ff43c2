"""Chaos is made around real servers, those of `tests/acceptance`, and emulated mornings."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "acceptance"), str(TESTS / "simulation")]


@pytest.fixture
def quiet_log() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
