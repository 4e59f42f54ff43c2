"""Mornings on databases of their own, quickly: no log lines, and the loop that we serve with."""

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
    parser.addoption("--mornings", type=int, default=120, help="how many random mornings")
    parser.addoption("--morning", type=int, default=None, help="the one with this seed")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A morning writes thousands of lines; when one fails, its history is in the database."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
