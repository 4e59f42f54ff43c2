"""The embedded PostgreSQL is private and durable, and starts again after any kind of end."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import psycopg
import pytest

from botpool.domain.errors import DatabaseUnavailable, SettingError
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from botpool.store.postmaster import Postmaster
from botpool.store.server_account import ServerAccount
from tests.support.postgres import fastest_place

START_AND_HANG = """
import sys, time
from pathlib import Path
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
print(EmbeddedPostgres(DataDir.open(Path(sys.argv[1]))).start(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path; pytest's own would be too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="bp-", dir=fastest_place()) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """An initialised data directory to copy, so that most tests need no initdb."""
    with tempfile.TemporaryDirectory(prefix="bp-", dir=fastest_place()) as path:
        server = EmbeddedPostgres(DataDir.open(Path(path)))
        server.start()
        server.stop()
        yield Path(path) / "postgres"


@pytest.fixture
def data_dir(directory: Path, cluster: Path) -> Iterator[DataDir]:
    data_dir = DataDir.open(directory / "data")
    copy_cluster(cluster, data_dir)
    yield data_dir
    EmbeddedPostgres(data_dir).stop()


def copy_cluster(cluster: Path, data_dir: DataDir) -> None:
    subprocess.run(["cp", "-a", str(cluster), str(data_dir.postgres)], check=True)


def postmaster_of(data_dir: DataDir) -> Postmaster:
    postmaster = Postmaster.read(data_dir.postgres)
    assert postmaster is not None
    return postmaster


def write_stale_file(data_dir: DataDir, pid: int) -> None:
    lines = [pid, data_dir.postgres, 1, 5432, data_dir.postgres, "", "1 1", "ready"]
    stale = data_dir.postgres / "postmaster.pid"
    stale.write_text("\n".join(map(str, lines)) + "\n")
    account = ServerAccount.for_data(data_dir.postgres)
    os.chown(stale, account.uid, account.gid)


def write_row(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def read_row(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT answer FROM kept").fetchone()
    assert row is not None
    return int(row[0])


def test_first_start_keeps_data_for_the_second(directory: Path) -> None:
    data_dir = DataDir.open(directory / "data")
    server = EmbeddedPostgres(data_dir)
    write_row(server.start())
    server.stop()

    url = EmbeddedPostgres(data_dir).start()
    try:
        assert read_row(url) == 42
    finally:
        EmbeddedPostgres(data_dir).stop()


def test_server_settings_are_durable_and_private(data_dir: DataDir) -> None:
    with psycopg.connect(EmbeddedPostgres(data_dir).start()) as connection:

        def setting(name: str) -> str:
            row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
            assert row is not None
            return str(row[0])

        assert setting("fsync") == setting("synchronous_commit") == "on"
        assert setting("listen_addresses") == ""
        assert setting("shared_buffers") == "128MB"
        assert setting("max_connections") == "100"
        assert connection.info.dbname == "botpool"
    assert (data_dir.postgres / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700
    assert data_dir.postgres.stat().st_mode & 0o777 == 0o700
    assert data_dir.root.stat().st_mode & 0o066 == 0
    assert data_dir.postgres_log.stat().st_mode & 0o777 == 0o600


def test_environment_does_not_change_the_server(
    data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "1", "PGUSER": "x", "PGHOST": "x", "PGDATA": "/x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PGDATESTYLE", "German")
    url = EmbeddedPostgres(data_dir).start()
    monkeypatch.delenv("PGDATESTYLE")

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting('datestyle')").fetchone()
    assert row == ("ISO, MDY",)


def test_server_has_its_own_session(data_dir: DataDir) -> None:
    EmbeddedPostgres(data_dir).start()

    pid = postmaster_of(data_dir).pid
    assert os.getsid(pid) == pid != os.getsid(0)


def test_attach_finds_a_running_server_only(data_dir: DataDir) -> None:
    beside = EmbeddedPostgres(data_dir)
    assert beside.attach() is None

    server = EmbeddedPostgres(data_dir)
    url = server.start()
    assert beside.attach() == url

    server.stop()
    assert beside.attach() is None


def test_stop_without_server_does_nothing(data_dir: DataDir) -> None:
    EmbeddedPostgres(data_dir).stop()


def test_stop_ends_a_server_with_open_connections(data_dir: DataDir) -> None:
    server = EmbeddedPostgres(data_dir)
    with psycopg.connect(server.start()) as connection:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_server_of_killed_botpool_is_adopted(data_dir: DataDir) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", START_AND_HANG, str(data_dir.root)]
    with Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as botpool:
        assert botpool.stdout is not None
        url = botpool.stdout.readline().strip()
        botpool.send_signal(signal.SIGKILL)
    pid = postmaster_of(data_dir).pid

    server = EmbeddedPostgres(data_dir)

    assert server.start() == url
    assert postmaster_of(data_dir).pid == pid
    server.stop()
    assert Postmaster.read(data_dir.postgres) is None


def test_killed_server_recovers_committed_rows(data_dir: DataDir) -> None:
    """The start follows at once, while processes of the dead server may still run."""
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    write_row(url)
    with psycopg.connect(url) as busy:
        os.kill(postmaster_of(data_dir).pid, signal.SIGKILL)

        assert read_row(EmbeddedPostgres(data_dir).start()) == 42
        busy.close()


def test_server_that_ends_during_adoption_is_replaced(data_dir: DataDir) -> None:
    """The server still listens and is `ready`, but a session does not start."""
    write_stale_file(data_dir, os.getpid())
    path = data_dir.postgres / ".s.PGSQL.5432"
    with socket.socket(socket.AF_UNIX) as dying:
        dying.bind(str(path))
        dying.listen()

        def die_at_the_third_connection() -> None:
            for _ in range(3):
                dying.accept()[0].close()
            dying.close()

        threading.Thread(target=die_at_the_third_connection).start()
        psycopg.connect(EmbeddedPostgres(data_dir).start()).close()


@pytest.mark.parametrize("number", [0, -1, -4711])
def test_process_id_of_many_processes_is_never_signalled(data_dir: DataDir, number: int) -> None:
    write_stale_file(data_dir, number)

    assert Postmaster.read(data_dir.postgres) is None


def test_leftover_file_with_reused_process_id_is_ignored(data_dir: DataDir) -> None:
    """After a reboot the id may belong to another process of the same account."""
    account = ServerAccount.for_data(data_dir.postgres)
    stranger = account.launch(["/bin/sleep", "600"], subprocess.DEVNULL)
    try:
        write_stale_file(data_dir, stranger.pid)

        assert EmbeddedPostgres(data_dir).attach() is None
        psycopg.connect(EmbeddedPostgres(data_dir).start()).close()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_start_after_interrupted_initdb_initialises_again(directory: Path) -> None:
    data_dir = DataDir.open(directory / "data")
    half = data_dir.root / "postgres.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")

    server = EmbeddedPostgres(data_dir)
    psycopg.connect(server.start()).close()
    server.stop()

    assert not half.exists()


@pytest.mark.parametrize("name", ["x" * 150, "with space", "a,b", "100%", 'say "hi"', "ünï"])
def test_server_starts_with_unusual_path(directory: Path, cluster: Path, name: str) -> None:
    data_dir = DataDir.open(directory / name)
    copy_cluster(cluster, data_dir)
    server = EmbeddedPostgres(data_dir)

    psycopg.connect(server.start()).close()
    socket_dir = postmaster_of(data_dir).socket_dir
    beside = socket_dir != data_dir.postgres
    if beside:
        assert socket_dir.stat().st_mode & 0o777 == 0o700
    server.stop()

    assert socket_dir.exists() != beside, "the short socket directory was left behind"


def test_socket_directory_of_another_user_is_refused(
    directory: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    data_dir = DataDir.open(directory / ("x" * 150))
    copy_cluster(cluster, data_dir)
    server = EmbeddedPostgres(data_dir)
    server.start()
    short = postmaster_of(data_dir).socket_dir
    server.stop()
    short.symlink_to(directory)
    account = ServerAccount.for_data(data_dir.postgres)
    os.chown(short, account.uid, account.gid, follow_symlinks=False)

    with pytest.raises(DatabaseUnavailable, match="belongs to another user"):
        server.start()


def test_damaged_cluster_is_reported_with_the_servers_message(data_dir: DataDir) -> None:
    (data_dir.postgres / "global" / "pg_control").unlink()

    with pytest.raises(DatabaseUnavailable) as caught:
        EmbeddedPostgres(data_dir).start()

    assert "pg_control" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(data_dir.postgres_log) in str(caught.value)


def test_cluster_of_another_version_is_refused(data_dir: DataDir) -> None:
    (data_dir.postgres / "PG_VERSION").write_text("16\n")

    with pytest.raises(SettingError, match=r"^data_dir: .* PostgreSQL 16, Botpool uses 18"):
        EmbeddedPostgres(data_dir).start()


def test_directory_without_cluster_is_refused(directory: Path) -> None:
    data_dir = DataDir.open(directory / "data")
    data_dir.postgres.mkdir()

    with pytest.raises(SettingError, match=r"^data_dir: .*PG_VERSION"):
        EmbeddedPostgres(data_dir).start()
