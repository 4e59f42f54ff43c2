"""What stops a start: one clear line that names it, and nothing is left running."""

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
from tests.support.http_server import BOTPOOL, environment, free_port
from tests.support.postgres import TestPostgres

FAILED, USED_WRONGLY = 1, 2
PATIENCE_S = 120.0
PASSWORD = "hunter2"
IDENTITY = {"BOTPOOL_INSTALLATION__ID": "tests", "BOTPOOL_INSTALLATION__SECRET": "a secret"}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """The command in an empty directory; afterwards nothing of it runs."""

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


def assert_told(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
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
def test_a_wrong_setting_in_the_file(run: Run, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "botpool.toml").write_text(text)
    assert_told(run("migrate"), USED_WRONGLY, words)
    assert not (tmp_path / ".botpool").exists(), "nothing was begun"


@pytest.mark.parametrize("command", ["up", "serve", "migrate"])
def test_a_wrong_setting_in_the_environment(run: Run, command: str) -> None:
    done = run(command, env={"BOTPOOL_QUEUE__POLL_INTERVAL_MS": "soon"})
    expected = "queue.poll_interval_ms: should be a valid integer"
    assert_told(done, USED_WRONGLY, expected, "BOTPOOL_QUEUE__POLL_INTERVAL_MS")


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
def test_a_wrong_option(run: Run, arguments: tuple[str, ...], words: str) -> None:
    assert_told(run(*arguments), USED_WRONGLY, words)


@pytest.mark.parametrize("name", ["id", "secret"])
def test_a_database_by_url_needs_an_identity(run: Run, name: str) -> None:
    env = {"DATABASE_URL": f"postgresql://botpool:{PASSWORD}@127.0.0.1/botpool", **IDENTITY}
    del env[f"BOTPOOL_INSTALLATION__{name.upper()}"]
    expected = f"installation.{name}: is required when database.url names a server"
    assert_told(run("serve", env=env), USED_WRONGLY, expected)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://botpool:{PASSWORD} 3@127.0.0.1/botpool",
        f"postgresql://botpool:{PASSWORD}%zz@127.0.0.1/botpool",
        f"postgresql://botpool:{PASSWORD}@127.0.0.1/botpool?pool_size=5",
    ],
    ids=["space", "escape", "parameter"],
)
def test_an_unreadable_database_url(run: Run, url: str) -> None:
    done = run("migrate", env=IDENTITY | {"DATABASE_URL": url})
    assert_told(done, USED_WRONGLY, "database.url: is not a valid", "DATABASE_URL")


# The machine.


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_taken_port(run: Run, tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(command, f"--port={port}")
    expected = f"server.port: 127.0.0.1:{port} cannot be used: address already in use"
    assert_told(done, USED_WRONGLY, expected, "choose another with --host or --port")
    assert not (tmp_path / ".botpool").exists(), "no database was begun"


def test_an_address_of_another_machine(run: Run) -> None:
    done = run("up", "--host=192.0.2.1", "--port=0")
    assert_told(done, USED_WRONGLY, "192.0.2.1:0 cannot be used: cannot assign requested address")


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_data_directory_that_is_a_file(run: Run, tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    expected = f"data_dir: {tmp_path / path} is, or lies below, a file"
    assert_told(run("up", f"--data-dir={path}", "--port=0"), USED_WRONGLY, expected)
    assert_told(run("migrate", f"--data-dir={path}"), USED_WRONGLY, expected)


def test_a_data_directory_that_cannot_be_made(run: Run) -> None:
    done = run("up", "--data-dir=/proc/botpool", "--port=0")
    assert_told(done, USED_WRONGLY, "data_dir: /proc/botpool cannot be used: ")


def test_a_data_directory_that_may_not_be_written(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o555)
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            missing("setpriv", "install the package util-linux")
        # Still root, but no longer above the permissions of files.
        before = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    done = run("up", f"--data-dir={directory}", "--port=0", before=before)
    assert_told(done, USED_WRONGLY, f"data_dir: {directory} is not writable by this user")


def test_a_data_directory_in_use(run: Run, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    said = tmp_path / "first.log"
    with said.open("wb") as log:
        first = subprocess.Popen(
            [BOTPOOL, "up", f"--data-dir={data_dir}", f"--port={free_port()}"],
            cwd=tmp_path,
            env=environment(),
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: "Botpool is ready" in said.read_text())
        done = run("up", f"--data-dir={data_dir}", "--port=0")
        expected = f"Botpool already runs on the data directory {data_dir} (process {first.pid})"
        assert_told(done, FAILED, expected, "choose another directory with --data-dir")
        assert first.poll() is None, "the first one goes on"
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(PATIENCE_S)


def test_a_damaged_identity(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".botpool").mkdir()
    (tmp_path / ".botpool" / "installation.json").write_text('{"id": ')
    done = run("up", "--port=0")
    assert_told(done, USED_WRONGLY, "data_dir: ", "installation.json is damaged", "or remove it")


# The database.


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_database_that_refuses_connections(run: Run, command: str) -> None:
    url = f"postgresql://botpool:{PASSWORD}@127.0.0.1:{free_port()}/botpool"
    port = () if command == "migrate" else ("--port=0",)
    done = run(command, *port, env=IDENTITY | {"DATABASE_URL": url})
    assert_told(done, FAILED, "The database does not answer", "Connection refused")


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_database_that_is_not_there(run: Run, postgres: TestPostgres, command: str) -> None:
    port = () if command == "migrate" else ("--port=0",)
    done = run(command, *port, env=IDENTITY | {"DATABASE_URL": postgres.url("nowhere")})
    assert_told(done, FAILED, 'database "nowhere" does not exist')


def test_a_database_without_the_schema(run: Run, postgres: TestPostgres) -> None:
    url = postgres.create_database()
    done = run("serve", "--port=0", env=IDENTITY | {"DATABASE_URL": url})
    assert_told(done, FAILED, "lacks the migration 0001_initial. Run 'botpool migrate' first.")
    assert run("migrate", env=IDENTITY | {"DATABASE_URL": url}).returncode == 0
    postgres.drop_database(url)


def test_a_database_with_a_newer_schema(run: Run, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO _yoyo_migration (migration_hash, migration_id, applied_at_utc) "
            "VALUES ('x', '9999-from-the-future', now())"
        )
    done = run("serve", "--port=0", env=IDENTITY | {"DATABASE_URL": database_url})
    assert_told(done, FAILED, "newer schema (9999-from-the-future)", "Install the version")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
