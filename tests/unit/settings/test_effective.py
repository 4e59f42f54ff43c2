"""The settings in effect: their sources, and their masked secrets."""

from pathlib import Path

import pytest

from botpool.settings import EffectiveSetting, effective_settings
from botpool.settings.masking import mask_url
from tests.unit.settings.conftest import WriteConfig

PASSWORD = "hunter2"
SECRET = "9c41e07d2ab85f36c1e0d4972f6ba853"
MASKED = "postgresql://botpool:********@db.internal/botpool"


def found(
    config: Path | None = None, overrides: dict[str, object] | None = None
) -> dict[str, EffectiveSetting]:
    return {each.setting.name: each for each in effective_settings(config, overrides or {})}


def test_each_value_names_its_source(
    write_config: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config('[server]\nhost = "10.0.0.5"\nport = 1\n[pools.zoom]\nmax_size = 4')
    monkeypatch.setenv("BOTPOOL_SERVER__PORT", "2")
    monkeypatch.setenv("COOLIFY_API_URL", "https://coolify.example.org")

    settings = found(path, {"data_dir": Path("/data")})

    sources = {name: (each.value, each.origin) for name, each in settings.items()}
    assert sources["data_dir"] == ("/data", "--data-dir")
    assert sources["server.host"] == ("10.0.0.5", str(path))
    assert sources["server.port"] == (2, "BOTPOOL_SERVER__PORT")
    assert sources["server.docs"] == ("open", "default")
    assert sources["pools.zoom.max_size"] == (4, str(path))
    assert sources["pools.zoom.backend"] == ("process", "default")
    assert sources["backends.coolify.url"] == ("https://coolify.example.org", "COOLIFY_API_URL")


def test_every_pool_is_listed() -> None:
    pools = {name.split(".")[1] for name in found() if name.startswith("pools.")}
    assert pools == {"google-meet", "teams", "zoom"}


def test_values_are_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTPOOL_DEPLOY__TIMEOUT_S", "900")
    monkeypatch.setenv("BOTPOOL_SERVER__TRUSTED_PROXIES", "10.0.0.1, 10.0.0.2")

    settings = found()

    assert str(settings["deploy.timeout_s"].value) == "900"
    assert settings["deploy.timeout_s"].default == 1_500
    assert settings["server.trusted_proxies"].value == ["10.0.0.1", "10.0.0.2"]
    assert settings["database.url"].value == "embedded"


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://botpool:{PASSWORD}@db.internal/botpool")
    monkeypatch.setenv("BOTPOOL_INSTALLATION__ID", "test")
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRET", SECRET)
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRETS", SECRET)
    monkeypatch.setenv("COOLIFY_API_TOKEN", f"1|{PASSWORD}")
    monkeypatch.setenv("COOLIFY_API_URL", f"https://me:{PASSWORD}@coolify.example.org")

    settings = found()

    assert settings["database.url"].value == MASKED
    assert settings["installation.secret"].value == "********"
    assert settings["installation.secrets"].value == ["********"]
    assert settings["backends.coolify.token"].value == "********"
    assert settings["backends.coolify.url"].value == "https://me:********@coolify.example.org"
    assert PASSWORD not in repr(settings)
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://botpool:{PASSWORD}@db.internal/botpool", MASKED),
        (f"postgresql://botpool:a:{PASSWORD}@db.internal/botpool", MASKED),
        ("postgresql://botpool@db.internal:5432/x", "postgresql://botpool@db.internal:5432/x"),
        (
            "postgres://a:5432,b:5433/x?sslmode=require",
            "postgres://a:5432,b:5433/x?sslmode=require",
        ),
        (
            f"postgresql://h/x?password={PASSWORD}&user=u",
            "postgresql://h/x?password=********&user=u",
        ),
        (f"postgresql://h/x?p%61ssword={PASSWORD}", "postgresql://h/x?password=********"),
        ("unix:///run/docker.sock", "unix:///run/docker.sock"),
        (f"postgresql://botpool:/{PASSWORD}@db/x", "********"),
        (f"postgresql://botpool:?{PASSWORD}@db/x", "********"),
        (f"postgresql://botpool:#{PASSWORD}@db/x", "********"),
        (f"postgresql://botpool:@{PASSWORD}@db/x", "********"),
        (f"postgresql://h/x?password=a@{PASSWORD}", "********"),
        (f"postgresql://h/x?password=a#{PASSWORD}", "********"),
    ],
)
def test_passwords_in_urls_are_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown
