"""Fixtures and options of the Coolify simulations."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import pytest
import structlog
import uvloop

from tests.support.postgres import TestPostgres


@pytest.fixture
def second_database_url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulations", type=int, default=40, help="number of random simulations")
    parser.addoption("--simulation-seed", type=int, default=None, help="run only this seed")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Drop log lines: a simulation writes thousands."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
