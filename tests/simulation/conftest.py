"""Mornings on databases of their own."""

from collections.abc import Iterator

import pytest

from postgres import TestPostgres


@pytest.fixture
def second_database_url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)
