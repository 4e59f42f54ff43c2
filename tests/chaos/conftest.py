"""Fixtures of the chaos tests."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def quiet_log() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
