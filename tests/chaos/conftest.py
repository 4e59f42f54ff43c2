"""Fixtures of the chaos tests."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.chaos.crash_installation import ForkServer


@pytest.fixture
def quiet_log() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """The process that starts the replicas of a module's tests quickly."""
    fork_server = ForkServer()
    yield fork_server
    fork_server.close()
