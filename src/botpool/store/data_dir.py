"""The data directory of embedded mode, which one process at a time uses.

The directory holds the database, the containers of local processes and secrets (the first API key,
the installation's secret, the database's socket), so that other users have no access. Its lock is a
kernel lock: `kill -9` releases it, and a leftover file never blocks the next start.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from botpool.domain.errors import AlreadyRunning, SettingError
from botpool.domain.installation_secret import new_secret


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationIdentity:
    """The id that marks everything the installation owns, and its secrets, newest first."""

    id: str
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        return cls(id=f"local-{token_hex(6)}", secrets=(new_secret(),))


@dataclass(frozen=True, slots=True)
class DataDir:
    """The paths in a data directory that exists and can be written."""

    root: Path

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the directory unless it exists; an unusable path is a wrong setting."""
        root = path.expanduser().absolute()
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise SettingError("data_dir", f"{root} is, or lies below, a file") from None
        except OSError as error:
            raise SettingError("data_dir", f"{root} cannot be used: {error.strerror}") from None
        if not os.access(root, os.W_OK | os.X_OK):
            raise SettingError("data_dir", f"{root} is not writable by this user")
        return cls(root)

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def postgres_log(self) -> Path:
        return self.root / "postgres.log"

    @property
    def containers(self) -> Path:
        return self.root / "containers"

    @property
    def key(self) -> Path:
        return self.root / "key"

    @property
    def address(self) -> Path:
        """The address of the running server, which commands on this machine call."""
        return self.root / "address"

    @property
    def installation_file(self) -> Path:
        return self.root / "installation.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory for this process, or raise `AlreadyRunning`."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            problem = f"{self.lock_file} cannot be opened: {error.strerror}"
            raise SettingError("data_dir", problem) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunning(str(self.root), self._read_holder()) from None
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            yield
            os.truncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def installation(self) -> InstallationIdentity:
        """Read the identity, or create it at the first start. Call this under the lock."""
        try:
            stored = json.loads(self.installation_file.read_text())
            return InstallationIdentity(id=stored["id"], secrets=_secrets_in(stored))
        except FileNotFoundError:
            created = InstallationIdentity.new()
            self.store(created)
            return created
        except OSError as error:
            problem = f"{self.installation_file} cannot be read: {error.strerror}"
            raise SettingError("data_dir", problem) from None
        except (ValueError, KeyError, TypeError):
            raise SettingError(
                "data_dir",
                f"{self.installation_file} is damaged: restore it, or remove it to get a new "
                "identity (running bots are then lost)",
            ) from None

    def store(self, identity: InstallationIdentity) -> None:
        """Replace the stored identity."""
        content = {"id": identity.id, "secrets": identity.secrets}
        write_private(self.installation_file, json.dumps(content) + "\n")

    def _read_holder(self) -> int | None:
        """Read the process id of the process that holds the lock."""
        with suppress(OSError, ValueError):
            return int(self.lock_file.read_text())
        return None


def _secrets_in(stored: dict[str, Any]) -> tuple[str, ...]:
    """The secrets of a stored identity, of which there is at least one."""
    secrets = tuple(str(each) for each in stored["secrets"])
    if not secrets:
        raise ValueError("no secret")
    return secrets


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner only, atomically and durably."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
