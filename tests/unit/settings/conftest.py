"""Isolation from the developer's settings, and a way to write a settings file."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

WriteConfig = Callable[[str], Path]


@pytest.fixture(autouse=True)
def isolated_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the developer's variables and file."""
    for name in os.environ:
        if name.startswith(("BOTPOOL_", "COOLIFY_")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    def write(text: str) -> Path:
        path = tmp_path / "botpool.toml"
        path.write_text(text)
        return path

    return write
