"""The account that the embedded PostgreSQL runs as.

PostgreSQL refuses to run as root, and `make up` on a fresh machine often is root. The server then
gets the system account `pgserver`, which must be able to reach its binaries and its data. The
wheel's own library makes every directory on the way readable by everybody, the data directory and
the home directory included; here `others` get no more than the right to pass through (`o+x`), and
only where it is missing.
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
MAKE_ACCOUNT = ("/usr/sbin/useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccount:
    """Whom the server's processes belong to. Without root: us."""

    uid: int
    gid: int

    @classmethod
    def for_data(cls, pgdata: Path) -> Self:
        """Ourselves; as root the owner of the data that is there, else the system account."""
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
        """Run one of PostgreSQL's programs to its end, as this account."""
        return subprocess.run(
            arguments, capture_output=True, text=True, check=False, **self._as_account()
        )

    def launch(self, arguments: list[str], log: int) -> subprocess.Popen[bytes]:
        """Start a server in a session of its own: a Ctrl-C in the terminal is not meant for it."""
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self._as_account(),
        )

    def _as_account(self) -> dict[str, Any]:
        """Nothing of our environment: PGPORT, PGDATA and others would change what a server does."""
        surroundings: dict[str, Any] = {"cwd": "/", "env": {"PATH": os.defpath, "LC_ALL": "C"}}
        if self.is_ours:
            return surroundings
        return surroundings | {"user": self.uid, "group": self.gid, "extra_groups": []}

    def make_directory(self, path: Path) -> None:
        """A directory of the account's own, closed to everybody else."""
        path.mkdir(mode=0o700)
        if not self.is_ours:
            os.chown(path, self.uid, self.gid)

    def open_way_to(self, path: Path) -> None:
        """Let the account pass through the directories above `path`."""
        if self.is_ours:
            return
        for parent in {*path.absolute().parents, *path.resolve().parents}:
            found = parent.stat()
            if found.st_uid != self.uid and not found.st_mode & stat.S_IXOTH:
                parent.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)

    def open_programs(self, installation: Path) -> None:
        """Let the account run what pip installed under a strict umask."""
        self.open_way_to(installation)
        if self.is_ours or installation.stat().st_mode & stat.S_IROTH:
            return
        for path in (*installation.rglob("*"), installation):
            mode = stat.S_IMODE(path.stat().st_mode)
            executable = stat.S_IXOTH if mode & stat.S_IXUSR else 0
            path.chmod(mode | stat.S_IROTH | executable)


def _ensure_system_account() -> pwd.struct_passwd:
    """Finds or creates the account; two first starts may race, and the loser finds the winner's."""
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT_NAME)
    with suppress(OSError):
        subprocess.run([*MAKE_ACCOUNT, ACCOUNT_NAME], capture_output=True, check=False)
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT_NAME)
    raise DatabaseUnavailable(
        f"PostgreSQL does not run as root and the system account {ACCOUNT_NAME} cannot be made "
        "here: run Botpool as a normal user, or set database.url"
    )
