"""Fixtures of the doctor's tests."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.doctor.checked_installation import (
    CONFIG,
    INSTALLATION,
    SECRET,
    Captured,
    CheckedInstallation,
    fill_installation,
)
from tests.support.postgres import TestPostgres


@pytest.fixture(scope="module")
def filled_installation(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A database to copy, with bots, and the containers of its slots."""
    url = postgres.create_database(template)
    directory = tmp_path_factory.mktemp("doctor")
    asyncio.run(fill_installation(url, directory))
    yield url, directory
    postgres.drop_database(url)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The settings of a replica, from the environment and a file."""
    for name in list(os.environ):
        if name.startswith("BOTPOOL_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    config = tmp_path / "botpool.toml"
    config.write_text(CONFIG)
    monkeypatch.setenv("BOTPOOL_CONFIG", str(config))
    monkeypatch.setenv("BOTPOOL_INSTALLATION__ID", INSTALLATION)
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRET", SECRET)
    return monkeypatch


@pytest.fixture
def installation(
    postgres: TestPostgres,
    filled_installation: tuple[str, Path],
    settings: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: Captured,
) -> Iterator[CheckedInstallation]:
    url, directory = postgres.create_database(filled_installation[0]), tmp_path / "data"
    shutil.copytree(filled_installation[1], directory)
    with psycopg.connect(url, autocommit=True) as connection:
        # The copy stands for the original, so it must not be recognised as a copy.
        connection.execute("DELETE FROM database_epochs")
    settings.setenv("DATABASE_URL", url)
    yield CheckedInstallation(url=url, directory=directory, captured=capsys)
    postgres.drop_database(url)
