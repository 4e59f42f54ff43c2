"""An error at the start is one line that names its cause, and leaves nothing running."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.components import missing
from tests.support.http_server import BOTPOOL, environment
from tests.support.ports import free_port
from tests.support.postgres import TestPostgres

FAILED, USAGE_ERROR = 1, 2
PATIENCE_S = 120.0
PASSWORD = "hunter2"
SECRET = "9c41e07d2ab85f36c1e0d4972f6ba853"
IDENTITY = {
    "BOTPOOL_INSTALLATION__ID": "tests",
    "BOTPOOL_INSTALLATION__SECRET": SECRET,
    "BOTPOOL_BACKENDS__PROCESS__ALLOW_SHARED_USER": "true",
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a command in an empty directory, and checks that no process is left."""

    def run(
        *arguments: str, env: dict[str, str] | None = None, before: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, str(BOTPOOL), *arguments],
            cwd=tmp_path,
            env=environment(**(env or {})),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    yield run
    left = [process for process in psutil.process_iter() if mentions(process, tmp_path)]
    for process in left:
        process.kill()
    assert not left


def mentions(process: psutil.Process, path: Path) -> bool:
    try:
        return any(str(path) in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def assert_error_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.stderr.startswith("botpool: "), done.stderr
    assert done.stderr.count("\n") == 1, f"more than one line: {done.stderr}"
    for word in words:
        assert word in done.stderr
    assert done.returncode == code
    assert done.stdout == ""
    assert PASSWORD not in done.stderr


# Settings.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[server]\nport = 99999",
            "server.port: should be less than or equal to 65535 (from botpool.toml)",
        ),
        ('[server]\nport = "http"', "server.port: should be a valid integer"),
        ("[server]\nprot = 8700", "server.prot: is not a setting; did you mean server.port?"),
        ("[sever]\nport = 8700", "sever: is not a setting; did you mean server?"),
        ("server = 8700", "server: is a section of settings, not a value"),
        ("[pools.zoom]\nbackend = 'cloud'", "pools.zoom.backend: is not a backend"),
        ("[pools.'Zoom!']", "pools.Zoom!: is not a valid pool name"),
        ("[pools]", "pools: is empty: define a pool"),
        ("[queue]\nmax_timeout_ms = 1", "queue.max_timeout_ms: is less than"),
        ("[deploy]\ntimeout_s = nan", "deploy.timeout_s: should be a finite number"),
        ("[database]\nurl = 'mysql://x'", "database.url: should be `embedded` or postgresql://"),
        ("[server", "config: botpool.toml is not valid TOML: "),
    ],
)
def test_invalid_setting_in_the_file_is_named(
    run: Run, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "botpool.toml").write_text(text)
    assert_error_line(run("migrate"), USAGE_ERROR, words)
    assert not (tmp_path / ".botpool").exists(), "the start stops before it creates anything"


@pytest.mark.parametrize("command", ["up", "serve", "migrate"])
def test_invalid_setting_in_the_environment_is_named(run: Run, command: str) -> None:
    done = run(command, env={"BOTPOOL_QUEUE__POLL_INTERVAL_MS": "soon"})
    expected = "queue.poll_interval_ms: should be a valid integer"
    assert_error_line(done, USAGE_ERROR, expected, "BOTPOOL_QUEUE__POLL_INTERVAL_MS")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("up", "--port", "many"), "Invalid value for '--port'"),
        (("up", "--port", "-1"), "server.port: should be greater than or equal to 0"),
        (("up", "--nonsense"), "--nonsense"),
        (("serve", "--config", "none.toml"), "config: there is no file none.toml"),
        (("serve", "--config", "."), "config: . cannot be read: Is a directory"),
        (("server",), "No such command 'server'"),
    ],
)
def test_invalid_option_is_named(run: Run, arguments: tuple[str, ...], words: str) -> None:
    assert_error_line(run(*arguments), USAGE_ERROR, words)


@pytest.mark.parametrize("name", ["id", "secret"])
def test_database_by_url_needs_an_installation_id_and_secret(run: Run, name: str) -> None:
    env = {"DATABASE_URL": f"postgresql://botpool:{PASSWORD}@127.0.0.1/botpool", **IDENTITY}
    del env[f"BOTPOOL_INSTALLATION__{name.upper()}"]
    expected = f"installation.{name}: is required when database.url names a server"
    assert_error_line(run("serve", env=env), USAGE_ERROR, expected)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://botpool:{PASSWORD} 3@127.0.0.1/botpool",
        f"postgresql://botpool:{PASSWORD}%zz@127.0.0.1/botpool",
        f"postgresql://botpool:{PASSWORD}@127.0.0.1/botpool?pool_size=5",
    ],
    ids=["space", "escape", "parameter"],
)
def test_malformed_database_url_is_refused_without_its_password(run: Run, url: str) -> None:
    done = run("migrate", env=IDENTITY | {"DATABASE_URL": url})
    assert_error_line(done, USAGE_ERROR, "database.url: is not a valid", "DATABASE_URL")


# The machine.


@pytest.mark.parametrize("command", ["up", "serve"])
def test_port_in_use_stops_the_start(run: Run, tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(command, f"--port={port}")
    expected = f"server.port: 127.0.0.1:{port} cannot be used: address already in use"
    assert_error_line(done, USAGE_ERROR, expected, "choose another with --host or --port")
    assert not (tmp_path / ".botpool").exists(), "the start stops before the database"


def test_address_of_another_machine_stops_the_start(run: Run) -> None:
    done = run("up", "--host=192.0.2.1", "--port=0")
    assert_error_line(
        done, USAGE_ERROR, "192.0.2.1:0 cannot be used: cannot assign requested address"
    )


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_data_directory_must_not_be_a_file(run: Run, tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    expected = f"data_dir: {tmp_path / path} is, or lies below, a file"
    assert_error_line(run("up", f"--data-dir={path}", "--port=0"), USAGE_ERROR, expected)
    assert_error_line(run("migrate", f"--data-dir={path}"), USAGE_ERROR, expected)


def test_data_directory_that_cannot_be_created_stops_the_start(run: Run) -> None:
    done = run("up", "--data-dir=/proc/botpool", "--port=0")
    assert_error_line(done, USAGE_ERROR, "data_dir: /proc/botpool cannot be used: ")


def test_read_only_data_directory_stops_the_start(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o555)
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            missing("setpriv", "install the package util-linux")
        # Root without the capability to ignore file permissions.
        before = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    done = run("up", f"--data-dir={directory}", "--port=0", before=before)
    assert_error_line(done, USAGE_ERROR, f"data_dir: {directory} is not writable by this user")


def test_data_directory_in_use_stops_a_second_start(run: Run, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    output = tmp_path / "first.log"
    with output.open("wb") as log:
        first = subprocess.Popen(
            [BOTPOOL, "up", f"--data-dir={data_dir}", f"--port={free_port()}"],
            cwd=tmp_path,
            env=environment(),
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: "Botpool is ready" in output.read_text())
        done = run("up", f"--data-dir={data_dir}", "--port=0")
        expected = f"Botpool already runs on the data directory {data_dir} (process {first.pid})"
        assert_error_line(done, FAILED, expected, "choose another directory with --data-dir")
        assert first.poll() is None, "the first server keeps running"
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(PATIENCE_S)


def test_damaged_installation_file_stops_the_start(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".botpool").mkdir()
    (tmp_path / ".botpool" / "installation.json").write_text('{"id": ')
    done = run("up", "--port=0")
    assert_error_line(
        done, USAGE_ERROR, "data_dir: ", "installation.json is damaged", "or remove it"
    )


# The database.


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_unreachable_database_stops_the_command(run: Run, command: str) -> None:
    url = f"postgresql://botpool:{PASSWORD}@127.0.0.1:{free_port()}/botpool"
    port = () if command == "migrate" else ("--port=0",)
    done = run(command, *port, env=IDENTITY | {"DATABASE_URL": url})
    assert_error_line(done, FAILED, "The database does not answer", "Connection refused")


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_missing_database_stops_the_command(run: Run, postgres: TestPostgres, command: str) -> None:
    port = () if command == "migrate" else ("--port=0",)
    done = run(command, *port, env=IDENTITY | {"DATABASE_URL": postgres.url("nowhere")})
    assert_error_line(done, FAILED, 'database "nowhere" does not exist')


def test_serve_needs_an_up_to_date_schema(run: Run, postgres: TestPostgres) -> None:
    url = postgres.create_database()
    done = run("serve", "--port=0", env=IDENTITY | {"DATABASE_URL": url})
    assert_error_line(
        done, FAILED, "lacks the migration 0001_initial. Run 'botpool migrate' first."
    )
    assert run("migrate", env=IDENTITY | {"DATABASE_URL": url}).returncode == 0
    postgres.drop_database(url)


def test_serve_refuses_a_newer_schema(run: Run, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO schema_migrations (name) VALUES ('9999-from-the-future')")
    done = run("serve", "--port=0", env=IDENTITY | {"DATABASE_URL": database_url})
    assert_error_line(done, FAILED, "newer schema (9999-from-the-future)", "Install the version")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


def test_bots_that_share_our_user_are_refused_with_a_database_by_url(
    run: Run, database_url: str, tmp_path: Path
) -> None:
    """A program in a private folder cannot run as another user."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    shutil.copy("/bin/sleep", private)
    env = IDENTITY | {
        "DATABASE_URL": database_url,
        "BOTPOOL_BACKENDS__PROCESS__COMMAND": f"{private}/sleep 60",
        "BOTPOOL_BACKENDS__PROCESS__ALLOW_SHARED_USER": "false",
    }
    done = run("serve", "--port=0", env=env)
    assert_error_line(
        done, USAGE_ERROR, "backends.process.allow_shared_user: is false, but bots run as "
    )


def test_user_that_does_not_exist_is_refused(run: Run, database_url: str) -> None:
    env = IDENTITY | {
        "DATABASE_URL": database_url,
        "BOTPOOL_BACKENDS__PROCESS__USER": "unknown-user",
    }
    done = run("serve", "--port=0", env=env)
    assert_error_line(done, USAGE_ERROR, "backends.process.user: there is no user unknown-user")
