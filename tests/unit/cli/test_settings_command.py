"""`botpool settings`: the listing, one setting in full, JSON, and an unknown name."""

import json
from pathlib import Path

import pytest

from botpool.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("BOTPOOL_DEPLOY__TIMEOUT_S", "900")
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "production.toml"
    path.write_text(
        """
        [database]
        url = "postgresql://botpool:hunter2@db.internal/botpool"
        [installation]
        id = "production"
        secret = "9c41e07d2ab85f36c1e0d4972f6ba853"
        """
    )
    return path


def test_listing_shows_values_and_sources_in_80_columns(config: Path, capsys: Captured) -> None:
    assert main(["settings", "--config", str(config)]) == 0

    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    rows = {tuple(line.split()) for line in lines}
    assert max(len(line) for line in lines) <= 80
    assert ("timeout_s", "900", "s", "BOTPOOL_DEPLOY__TIMEOUT_S") in rows
    assert ("attempts", "2", "attempts", "default") in rows
    assert lines.index("[deploy]") < lines.index("[recovery]")
    assert "hunter2" not in "".join("".join(lines).split())
    assert config.name in "".join("".join(lines).split())


def test_section_is_shown_in_full(config: Path, capsys: Captured) -> None:
    assert main(["settings", "deploy", "--config", str(config)]) == 0

    out = capsys.readouterr().out
    assert "deploy.timeout_s" in out
    assert "Fresh heartbeats suspend" in " ".join(out.split())
    assert "BOTPOOL_DEPLOY__ATTEMPTS" in out
    assert "attempts = 3" in out
    assert "recovery." not in out


def test_json_describes_each_setting(config: Path, capsys: Captured) -> None:
    assert main(["settings", "--json", "--config", str(config)]) == 0

    out = capsys.readouterr().out
    settings = {each["name"]: each for each in json.loads(out)["settings"]}
    assert "hunter2" not in out
    assert settings["installation.id"]["from"] == str(config)
    timeout = settings["deploy.timeout_s"]
    assert timeout.pop("description").startswith("The longest time")
    assert timeout == {
        "name": "deploy.timeout_s",
        "value": 900,
        "unit": "s",
        "from": "BOTPOOL_DEPLOY__TIMEOUT_S",
        "default": 1500,
        "environment": "BOTPOOL_DEPLOY__TIMEOUT_S",
        "example": 900,
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("deploy.timeout", "did you mean deploy.timeout_s?"),
        ("retension", "did you mean retention?"),
        ("x", "'botpool settings' lists all of them"),
    ],
)
def test_unknown_name_is_a_usage_error(
    config: Path, capsys: Captured, name: str, hint: str
) -> None:
    assert main(["settings", name, "--config", str(config)]) == 2
    assert capsys.readouterr().err == f"botpool: {name}: is not a setting; {hint}\n"


def test_invalid_setting_is_one_line(
    config: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOTPOOL_SERVER__PORT", "hunter2")

    assert main(["settings", "--config", str(config)]) == 2

    err = capsys.readouterr().err
    assert err.startswith("botpool: server.port: should be a valid integer")
    assert err.endswith("(from BOTPOOL_SERVER__PORT)\n")
    assert err.count("\n") == 1
