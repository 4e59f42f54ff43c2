"""The account that the embedded PostgreSQL runs as.

PostgreSQL refuses to run as root, and `make up` on a fresh machine often runs as root. The server
then runs as the system account `pgserver`, which needs access to its programs and its data. Other
users get only the right to pass through directories (`o+x`), and only where it is missing.
"""

import os
import pwd
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from botpool.domain.errors import DatabaseUnavailable

ACCOUNT_NAME = "pgserver"
CREATE_ACCOUNT = (
    "/usr/sbin/useradd",
    "--system",
    "--no-create-home",
    "--shell",
    "/usr/sbin/nologin",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccount:
    """The user and group of the server's processes."""

    uid: int
    gid: int

    @classmethod
    def for_data(cls, pgdata: Path) -> Self:
        """Return this user; for root, the owner of existing data or the system account."""
        if os.geteuid() != 0:
            return cls(uid=os.geteuid(), gid=os.getegid())
        if pgdata.exists() and (owner := pgdata.stat()).st_uid != 0:
            return cls(uid=owner.st_uid, gid=owner.st_gid)
        entry = _ensure_system_account()
        return cls(uid=entry.pw_uid, gid=entry.pw_gid)

    @property
    def is_ours(self) -> bool:
        return self.uid == os.geteuid()

    def run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a program of PostgreSQL to its end, as this account."""
        return subprocess.run(
            arguments, capture_output=True, text=True, check=False, **self._as_account()
        )

    def launch(self, arguments: list[str], log: int) -> subprocess.Popen[bytes]:
        """Start a server in its own session, so that a Ctrl-C in the terminal does not reach it."""
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self._as_account(),
        )

    def _as_account(self) -> dict[str, Any]:
        """Return the process options, without variables such as PGPORT that affect a server."""
        options: dict[str, Any] = {"cwd": "/", "env": {"PATH": os.defpath, "LC_ALL": "C"}}
        if self.is_ours:
            return options
        return options | {"user": self.uid, "group": self.gid, "extra_groups": []}

    def create_directory(self, path: Path) -> None:
        """Create a directory that only the account can use."""
        path.mkdir(mode=0o700)
        if not self.is_ours:
            os.chown(path, self.uid, self.gid)

    def allow_path_to(self, path: Path) -> None:
        """Allow the account to pass through the directories above `path`."""
        if self.is_ours:
            return
        for parent in {*path.absolute().parents, *path.resolve().parents}:
            found = parent.stat()
            if found.st_uid != self.uid and not found.st_mode & stat.S_IXOTH:
                parent.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)

    def allow_programs(self, installation: Path) -> None:
        """Allow the account to run programs that pip installed with a strict umask."""
        self.allow_path_to(installation)
        if self.is_ours or installation.stat().st_mode & stat.S_IROTH:
            return
        for path in (*installation.rglob("*"), installation):
            mode = stat.S_IMODE(path.stat().st_mode)
            executable = stat.S_IXOTH if mode & stat.S_IXUSR else 0
            path.chmod(mode | stat.S_IROTH | executable)


def _ensure_system_account() -> pwd.struct_passwd:
    """Find or create the account. Of two concurrent first starts, one creates and both find it."""
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT_NAME)
    with suppress(OSError):
        subprocess.run([*CREATE_ACCOUNT, ACCOUNT_NAME], capture_output=True, check=False)
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT_NAME)
    raise DatabaseUnavailable(
        f"PostgreSQL does not run as root and the system account {ACCOUNT_NAME} cannot be created "
        "here: run Botpool as a normal user, or set database.url"
    )
