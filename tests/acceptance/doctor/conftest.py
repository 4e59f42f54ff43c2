"""What the doctor's tests share. Some of it is of the acceptance tests around them."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.doctor.doctor_scene import (
    CONFIG,
    INSTALLATION,
    SECRET,
    Captured,
    Patient,
    set_scene,
)
from tests.support.postgres import TestPostgres


@pytest.fixture(scope="module")
def scene(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A database to copy, in the middle of its work, and the containers of its slots."""
    url = postgres.create_database(template)
    directory = tmp_path_factory.mktemp("doctor")
    asyncio.run(set_scene(url, directory))
    yield url, directory
    postgres.drop_database(url)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The settings of a replica, as the environment and a file give them."""
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
def patient(
    postgres: TestPostgres,
    scene: tuple[str, Path],
    settings: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: Captured,
) -> Iterator[Patient]:
    url, made = postgres.create_database(scene[0]), tmp_path / "data"
    shutil.copytree(scene[1], made)
    settings.setenv("DATABASE_URL", url)
    yield Patient(url=url, directory=made, captured=capsys)
    postgres.drop_database(url)
