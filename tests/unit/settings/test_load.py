"""Loading settings: defaults, precedence of the sources, and one line for an invalid setting."""

import re
from pathlib import Path

import pytest

from botpool.domain.errors import SettingError
from botpool.settings import Settings, load_settings
from botpool.settings.warm import warm_of
from tests.unit.settings.conftest import WriteConfig

PASSWORD = "hunter2-is-not-for-logs"
SECRET = "9c41e07d2ab85f36c1e0d4972f6ba853"
NEWER_SECRET = "4d1f0c9b7e62a85d3360f8e1b27c49a5"
SERVER_URL = f"postgresql://botpool:{PASSWORD}@db.example.org/botpool"


def problem_of(config: Path | None = None, overrides: dict[str, object] | None = None) -> str:
    with pytest.raises(SettingError) as caught:
        load_settings(config, overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_defaults_match_the_contract(tmp_path: Path) -> None:
    settings = load_settings()

    assert settings.database.embedded
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8700)
    assert settings.data_dir == tmp_path / ".botpool"
    assert list(settings.pools) == ["google-meet", "teams", "zoom"]
    pool = settings.pools["zoom"]
    assert (pool.backend, pool.max_size, pool.heartbeats) == ("process", 100, "required")
    assert (pool.cpus, pool.memory_mb) == (1, 2_048)
    queue, deploy, recovery = settings.queue, settings.deploy, settings.recovery
    assert queue.model_dump() == {
        "default_timeout_ms": 300_000,
        "max_timeout_ms": 600_000,
        "poll_interval_ms": 1_000,
        "max_length": 10_000,
    }
    assert deploy.model_dump() == {
        "timeout_s": 1_500,
        "poll_interval_s": 15,
        "grace_s": 180,
        "wait_timeout_s": 1_800,
        "attempts": 2,
        "infrastructure_retries": 5,
        "image_known_s": 86_400,
    }
    assert recovery.model_dump() == {
        "interval_s": 60,
        "deploying_timeout_s": 900,
        "heartbeat_freshness_s": 300,
        "max_skipped": 3,
        "max_attempts": 3,
        "stray_share": 0.2,
    }
    assert settings.agent.model_dump() == {
        "heartbeat_interval_ms": 10_000,
        "leave_grace_s": 30,
        "self_fence_s": 0,
    }
    assert settings.bots.max_duration_s == 21_600
    assert list(settings.retention.model_dump().values()) == [30, 30, 7, 365, 7]
    coolify = settings.backends.coolify
    assert coolify.requests_per_minute == 200
    assert (coolify.concurrent_deployments, coolify.status_lag_s) == (None, 60)


def test_options_override_environment_and_environment_overrides_file(
    write_config: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config('[server]\nhost = "0.0.0.0"\nport = 1\n[queue]\npoll_interval_ms = 7\n')
    monkeypatch.setenv("BOTPOOL_SERVER__PORT", "2")
    monkeypatch.setenv("BOTPOOL_SERVER__PUBLIC_URL", "https://bots.example.org/")

    settings = load_settings(overrides={"server": {"port": 3, "public_url": None}})

    assert settings.server.port == 3
    assert settings.server.public_url == "https://bots.example.org"
    assert settings.server.host == "0.0.0.0"
    assert settings.queue.poll_interval_ms == 7


def test_option_or_variable_names_the_file(
    tmp_path: Path, write_config: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config("[server]\nport = 1\n")
    (tmp_path / "other.toml").write_text("[server]\nport = 2\n")
    (tmp_path / "third.toml").write_text("[server]\nport = 3\n")
    monkeypatch.setenv("BOTPOOL_CONFIG", str(tmp_path / "other.toml"))

    assert load_settings().server.port == 2
    assert load_settings(tmp_path / "third.toml").server.port == 3


def test_pools_in_file_replace_default_pools(write_config: WriteConfig) -> None:
    write_config('[pools.webex]\nmax_size = 3\nheartbeats = "none"\n')

    pools = load_settings().pools

    assert list(pools) == ["webex"]
    assert (pools["webex"].max_size, pools["webex"].heartbeats) == (3, "none")


def test_environment_overrides_and_adds_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTPOOL_POOLS__GOOGLE_MEET__MAX_SIZE", "5")
    monkeypatch.setenv("BOTPOOL_POOLS__WEBEX__IMAGE", "123")

    pools = load_settings().pools

    assert list(pools) == ["google-meet", "teams", "zoom", "webex"]
    assert pools["google-meet"].max_size == 5
    assert pools["webex"].image == "123"


def test_environment_variables_hold_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTPOOL_SERVER__TRUSTED_PROXIES", "10.0.0.0/8, 192.168.1.1")
    monkeypatch.setenv("BOTPOOL_BACKENDS__PROCESS__COMMAND", "python3 'my bot.py'")

    settings = load_settings()

    assert settings.server.trusted_proxies == ("10.0.0.0/8", "192.168.1.1")
    assert settings.backends.process.command == ("python3", "my bot.py")


def test_botpool_variables_override_shared_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", SERVER_URL)
    monkeypatch.setenv("COOLIFY_API_TOKEN", "1|token")
    identity = {"installation": {"id": "test", "secret": SECRET}}

    settings = load_settings(overrides=identity)
    assert settings.database.url.get_secret_value() == SERVER_URL
    assert settings.backends.coolify.token is not None
    assert settings.backends.coolify.token.get_secret_value() == "1|token"

    monkeypatch.setenv("BOTPOOL_DATABASE__URL", "embedded")
    assert load_settings().database.embedded


def test_empty_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("BOTPOOL_SERVER__PORT", "")

    assert load_settings() == Settings()


def test_variables_of_agents_and_kubernetes_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOTPOOL_TOKEN", "x")
    monkeypatch.setenv("BOTPOOL_SERVER_PORT", "tcp://10.0.0.1:8700")

    assert load_settings() == Settings()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[server]\nprot = 1", "server.prot: is not a setting; did you mean server.port?"),
        ("[sever]\nport = 1", "sever: is not a setting; did you mean server?"),
        ("[server]\nport = 70000", "server.port: should be less than or equal to 65535"),
        ("[server]\nport = true", "server.port: should not be true or false"),
        ("server = 3", "server: is a section of settings, not a value"),
        ("[recovery]\ninterval_s = 0", "recovery.interval_s: should be greater than 0"),
        ("[recovery]\ninterval_s = inf", "recovery.interval_s: should be"),
        ("[pools.zoom]\nmax_size = -1", "pools.zoom.max_size: should be greater than"),
        ("[pools.zoom]\nheartbeats = 'x'", "pools.zoom.heartbeats: should be 'required' or"),
        ("[pools.zoom]\nbackend = 'podman'", "pools.zoom.backend: is not a backend"),
        ("[pools.Zoom_1]", "pools.Zoom_1: is not a valid pool name"),
        (f"[pools.{'a' * 41}]", f"pools.{'a' * 41}: is not a valid pool name"),
        ("[pools]", "pools: is empty"),
        ("[server]\npublic_url = 'botpool'", "server.public_url: should be an address"),
        ("[server]\ntrusted_proxies = ['x']", "server.trusted_proxies: should be IP addresses"),
        ("[backends.process]\ncommand = []", "backends.process.command: "),
        ('[backends.process]\ncommand = "a \'b"', "backends.process.command: should be a"),
        ("[database]\nurl = 'mysql://x'", "database.url: should be `embedded` or"),
        ("[queue]\nmax_timeout_ms = 5", "queue.max_timeout_ms: is less than"),
        ("data_dir = 3", "data_dir: should be a path"),
        ("[agent]\nheartbeat_interval_ms = 300000", "recovery.heartbeat_freshness_s: is not above"),
        ("[agent]\nself_fence_s = 29", "agent.self_fence_s: is less than three times"),
        (
            "[limits]\nconnections = 1000\nconnections_for_agents = 1000",
            "limits.connections_for_agents: is not below limits.connections (1000)",
        ),
    ],
)
def test_error_names_the_invalid_setting(
    write_config: WriteConfig, text: str, expected: str
) -> None:
    write_config(text)

    assert problem_of().startswith(expected)


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("BOTPOOL_SERVER__PORT", "server.port: should be a valid integer"),
        ("BOTPOOL_SEVER__PORT", "sever: is not a setting"),
        ("BOTPOOL_POOLS__GOOGLE_MEET__MAX_SIZE", "pools.google-meet.max_size: should be"),
        ("DATABASE_URL", "database.url: should be"),
        ("COOLIFY_API_URL", "backends.coolify.url: should be"),
        ("BOTPOOL_SERVER", "server: is a section of settings, not a value"),
        ("BOTPOOL_SERVER__PROT", "server.prot: is not a setting; did you mean server.port?"),
        ("botpool_server__port", "server.port: should be a valid integer"),
        ("BOTPOOL_INSTALLATION__ID", "installation.id: should be at most 63"),
    ],
)
def test_error_names_the_variable_of_an_invalid_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    monkeypatch.setenv(variable, "n/a")

    problem = problem_of()

    assert problem.startswith(expected)
    assert problem.endswith(f"(from {variable})")


def test_error_names_an_unreadable_file(tmp_path: Path, write_config: WriteConfig) -> None:
    assert problem_of(tmp_path / "none.toml") == f"config: there is no file {tmp_path}/none.toml"
    assert "cannot be read" in problem_of(tmp_path)
    broken = write_config("[server\nport = 1")
    assert "botpool.toml is not valid TOML" in problem_of(broken)
    assert "line 1" in problem_of(broken)
    broken.write_bytes(b"\xff\xfe")
    assert "is not valid TOML" in problem_of(broken)


def test_error_names_the_option_of_an_invalid_setting() -> None:
    problem = problem_of(overrides={"server": {"port": 70_000}})

    assert problem == "server.port: should be less than or equal to 65535 (from --port)"


def test_whole_section_in_a_variable_is_invalid_beside_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOTPOOL_SERVER__PORT", "1")
    monkeypatch.setenv("BOTPOOL_SERVER", "x")

    assert problem_of().startswith("server: is a section of settings, not a value")


@pytest.mark.parametrize("missing", ["id", "secret"])
def test_database_by_url_requires_installation_id_and_secret(missing: str) -> None:
    identity = {"id": "test", "secret": SECRET}
    del identity[missing]

    problem = problem_of(overrides={"database": {"url": SERVER_URL}, "installation": identity})

    assert problem.startswith(f"installation.{missing}: is required")


@pytest.mark.parametrize("url", [SERVER_URL, f"mysql://root:{PASSWORD}@x", f"{PASSWORD}"])
def test_errors_and_settings_never_show_secrets(url: str) -> None:
    overrides: dict[str, object] = {
        "database": {"url": url},
        "installation": {"id": "x" * 80, "secret": SECRET},
        "backends": {"coolify": {"token": PASSWORD}},
    }
    assert PASSWORD not in problem_of(overrides=overrides)

    overrides["database"] = {"url": SERVER_URL}
    overrides["installation"] = {"id": "test", "secret": SECRET, "secrets": [NEWER_SECRET]}
    settings = load_settings(overrides=overrides)
    shown = f"{settings!r} {settings} {settings.model_dump_json()}"
    assert not [each for each in (PASSWORD, SECRET, NEWER_SECRET) if each in shown]


@pytest.mark.parametrize("name", ["secret", "secrets"])
def test_weak_secret_is_refused_with_its_setting(name: str) -> None:
    weak = "changeme"
    given = {"id": "test", name: weak if name == "secret" else [NEWER_SECRET, weak]}

    problem = problem_of(overrides={"database": {"url": SERVER_URL}, "installation": given})

    assert problem.startswith(f"installation.{name}: has 8 characters; it needs at least 32")
    assert "openssl rand -hex 32" in problem
    assert weak not in problem


def test_secrets_are_listed_once_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRETS", f"{NEWER_SECRET}, {SECRET}")
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRET", SECRET)

    assert load_settings().installation.all_secrets == (NEWER_SECRET, SECRET)


def test_data_directory_ignores_later_changes_of_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(overrides={"data_dir": "data"})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert settings.data_dir == tmp_path / "data"


def test_settings_are_immutable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().server.port = 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[pools.zoom.pacing]\nper_minute = 600\nburst = 9",
            "pools.zoom.pacing.burst: is too small for pools.zoom.pacing.per_minute",
        ),
        (
            '[pools.zoom.pacing]\negress = "nat"',
            "pools.zoom.pacing.per_minute: is required with pools.zoom.pacing.egress",
        ),
        (
            '[pools]\nzoom.pacing.per_minute = 6\nteams.pacing = {per_minute = 7, egress = "zoom"}',
            "pools.teams.pacing: differs from pools.zoom.pacing: both share the egress zoom",
        ),
    ],
)
def test_pacing_that_cannot_work_is_refused(
    write_config: WriteConfig, text: str, problem: str
) -> None:
    write_config(text)
    with pytest.raises(SettingError, match=re.escape(problem)):
        load_settings()


def test_pools_may_share_an_egress_by_naming_another_pool(write_config: WriteConfig) -> None:
    write_config(
        "[pools.zoom.pacing]\nper_minute = 6\n"
        '[pools.teams.pacing]\nper_minute = 6\negress = "zoom"\n'
    )
    assert load_settings().pools["teams"].pacing.egress == "zoom"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'protocol = "meeboter"\nwarm.hot = 1',
            'pools.zoom.warm.hot: needs protocol = "botpool", but pools.zoom.protocol is "meebo',
        ),
        (
            'protocol = "vexa"\nwarm.windows = [{from = "08:00", to = "09:00", hot = 1}]',
            'pools.zoom.warm.hot: needs protocol = "botpool"',
        ),
        ("max_size = 3\nwarm.hot = 4", "pools.zoom.warm.hot: is 4, above pools.zoom.max_size (3)"),
        ('warm.windows = [{from = "8:00", to = "09:00"}]', "should be a time of day"),
        ('warm.windows = [{days = "Mo", from = "08:00", to = "09:00"}]', "days of the week"),
        ('warm.windows = [{from = "08:00", to = "09:00", timezone = "X/Y"}]', "time zone"),
        ("warm.handover_timeout_s = 0", "pools.zoom.warm.handover_timeout_s"),
        ("warm.hot = true", "pools.zoom.warm.hot"),
    ],
)
def test_warm_floors_that_cannot_work_are_refused(
    write_config: WriteConfig, text: str, problem: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(problem)):
        load_settings(write_config(f"[pools.zoom]\n{text}"))


def test_warm_windows_are_parsed(write_config: WriteConfig) -> None:
    window = '{days = "Sat-Mon, Wed", from = "22:00", to = "02:00", timezone = "UTC", idle = 3}'
    load = load_settings(write_config(f"[pools.zoom]\nwarm = {{hot = 2, windows = [{window}]}}"))
    warm = warm_of(load.pools["zoom"])
    assert (warm.hot, warm.highest_hot, warm.highest_idle) == (2, 2, 3)
    assert warm.windows[0].days == (0, 2, 5, 6)
    assert (warm.windows[0].starts, warm.windows[0].ends) == ("22:00", "02:00")
