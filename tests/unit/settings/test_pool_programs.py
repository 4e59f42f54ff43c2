"""Environment, secrets, command and entrypoint of a pool: one clear line for each mistake."""

from pathlib import Path

import pytest

from botpool.domain.errors import SettingError
from botpool.settings import Settings, load_settings
from botpool.settings.effective import effective_settings
from botpool.settings.pool_programs import templates_of
from tests.unit.settings.conftest import WriteConfig

COOLIFY = """
[server]
public_url = "https://botpool.example.org"
[backends.coolify]
url = "https://coolify.example.org"
token = "1|secret"
project_uuid = "p"
server_uuid = "s"
[pools.zoom]
backend = "coolify"
image = "acme/bot:1"
"""


def problem(settings: Settings) -> str:
    with pytest.raises(SettingError) as raised:
        templates_of(settings.pools)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('env = { A = "{bot.nam}" }', ["pools.zoom.env.A", "{bot.nam}", "{bot.meetingUrl}"]),
        ('command = ["run", "{meeting}"]', ["pools.zoom.command", "{meeting}"]),
        ('entrypoint = ["{exe}"]', ["pools.zoom.entrypoint", "{exe}"]),
        ('env = { "A-B" = "1" }', ["pools.zoom.env.A-B", "name of an environment variable"]),
        ('env = { BOTPOOL_TOKEN = "1" }', ["pools.zoom.env.BOTPOOL_TOKEN", "Botpool sets itself"]),
        ("env = { A = 1 }", ["pools.zoom.env.A", "string"]),
        ('secrets = { A = "not a name" }', ["pools.zoom.secrets.A", "not the secret itself"]),
        ('env = { A = "1" }\nsecrets = { A = "B" }', ["pools.zoom.env.A", "secrets"]),
        ('protocol = "none"', ["pools.zoom.outcome", "exit-code"]),
        ('protocol = "smtp"', ["pools.zoom.protocol", "meeboter"]),
        ('leave = "shout"', ["pools.zoom.leave", "signal"]),
        ("stop_grace_s = 901", ["pools.zoom.stop_grace_s", "900"]),
        ("finish_timeout_s = 0", ["pools.zoom.finish_timeout_s"]),
    ],
)
def test_wrong_setting_is_named_in_one_line(
    write_config: WriteConfig, text: str, words: list[str]
) -> None:
    write_config(f"[pools.zoom]\n{text}")
    with pytest.raises(SettingError) as raised:
        load_settings()
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('outcome = "exit-code"', ["pools.zoom.outcome", "botpool-agent run", "restarts"]),
        ('command = ["a"]', ["pools.zoom.command", "Coolify"]),
        ('entrypoint = ["a"]', ["pools.zoom.entrypoint", "Coolify"]),
    ],
)
def test_coolify_refuses_what_it_cannot_do(
    write_config: WriteConfig, text: str, words: list[str]
) -> None:
    write_config(COOLIFY + text)
    with pytest.raises(SettingError) as raised:
        load_settings()
    assert all(word in str(raised.value) for word in words)
    write_config(COOLIFY + 'leave = "signal"\nenv = { A = "{bot.id}" }')
    assert load_settings().pools["zoom"].env == {"A": "{bot.id}"}


def test_missing_secrets_are_named(
    write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    write_config('[pools.zoom]\nsecrets = { KEY = "NO_SUCH_SECRET" }')
    assert "pools.zoom.secrets.KEY" in problem(load_settings())
    assert "NO_SUCH_SECRET" in problem(load_settings())
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for path, words in ((tmp_path / "none", "No such file"), (empty, "1 to"), (tmp_path, "read")):
        write_config(f'[pools.zoom]\nsecrets = {{ KEY = "{path}" }}')
        assert words in problem(load_settings())


def test_secrets_are_read_and_never_shown(
    write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("sentinel-1\n")
    monkeypatch.setenv("S3_SOURCE", "sentinel-2")
    monkeypatch.setenv("BOTPOOL_POOLS__ZOOM__ENV__Mode", "fast")
    config = write_config(f'[pools.zoom]\nsecrets = {{ A = "{file}", B = "S3_SOURCE" }}')
    settings = load_settings()
    template = templates_of(settings.pools)["zoom"]
    assert template.secrets == {"A": "sentinel-1", "B": "sentinel-2"}
    assert template.env == {"Mode": "fast"}
    shown = f"{settings!r}{template!r}{effective_settings(config, {})}"
    assert "sentinel" not in shown
    assert "S3_SOURCE" in shown
