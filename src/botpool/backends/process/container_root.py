"""The folder of all containers, which several installations may share.

A folder that cannot be read is an outage, never "all containers are gone". A hidden marker file
distinguishes a folder without containers from the empty mount point of a lost disk.
"""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from botpool.backends.process.container_directory import (
    DELETED_FENCE,
    ContainerDirectory,
    ContainerIdentity,
)
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId

MARKER = ".botpool"
CREATING_PREFIX = ".creating."
DELETING_PREFIX = ".deleting."

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
CONTAINER_ID = re.compile(rf"(?P<name>{NAME.pattern})\.[0-9a-f]{{6}}")


class ContainerRoot:
    def __init__(self, path: Path, installation_id: str, *, is_passable: bool = False) -> None:
        """`is_passable`: programs of other users run in the containers."""
        self._is_passable = is_passable
        self._path = path.absolute()
        self._marker = self._path / MARKER
        self._installation_id = installation_id
        self._known: set[ContainerId] = set()
        """Containers known to be ours. Ids are never reused."""

    async def prepare(self) -> None:
        """Create the folder, and remove what a crash left half created or half deleted."""
        self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._marker.touch(mode=0o600)
        if self._is_passable:
            # Other users can pass through these two directories, but not list them.
            for passed in (self._path, self._path.parent):
                passed.chmod(stat.S_IMODE(passed.stat().st_mode) | stat.S_IXOTH)
        async with self.creation_lock():
            for entry in list(self._path.iterdir()):
                if entry.name.startswith((CREATING_PREFIX, DELETING_PREFIX)):
                    await asyncio.to_thread(shutil.rmtree, entry, ignore_errors=True)

    def require(self) -> None:
        """Raise BackendUnavailable if the folder itself is missing."""
        if not self._marker.exists():
            raise BackendUnavailable(f"cannot read the folder of containers {self._path}")

    def require_writable(self) -> None:
        self.require()
        with tempfile.TemporaryFile(dir=self._path) as probe:
            probe.write(b"writable")

    def find(self, container_id: ContainerId) -> ContainerDirectory | None:
        """Return the container if it exists and is ours. Accepts any string."""
        if not CONTAINER_ID.fullmatch(container_id):
            return None
        directory = self._directory(container_id)
        if container_id in self._known and directory.exists():
            return directory
        identity = directory.read_identity()
        if identity is None or identity.installation != self._installation_id:
            self._known.discard(container_id)
            self.require()
            return None
        self._known.add(container_id)
        return directory

    def _directory(self, name: str) -> ContainerDirectory:
        return ContainerDirectory(str(self._path), ContainerId(name))

    def get(self, container_id: ContainerId) -> ContainerDirectory:
        directory = self.find(container_id)
        if directory is None:
            raise ContainerGone(container_id)
        return directory

    def owned(self, name: str | None = None) -> list[tuple[ContainerDirectory, ContainerIdentity]]:
        """Return our containers, or those with this name, oldest first."""
        self.require()
        found = []
        for entry in self._path.iterdir():
            match = CONTAINER_ID.fullmatch(entry.name)
            if match is None or name not in (None, match["name"]):
                continue
            directory = self._directory(entry.name)
            identity = directory.read_identity()
            if identity is not None and identity.installation == self._installation_id:
                found.append((directory, identity))
        return sorted(found, key=lambda found: (found[1].created_at, found[0].container_id))

    @asynccontextmanager
    async def creation_lock(self) -> AsyncIterator[None]:
        """Allow one creation at a time over all replicas, so that no container is created twice."""
        fd = os.open(self._marker, os.O_RDWR | os.O_CLOEXEC)
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.005)
            yield
        finally:
            os.close(fd)

    def find_or_create(self, spec: ContainerSpec) -> ContainerDirectory:
        """Call this inside `creation_lock`. Skips containers that are being deleted."""
        if not NAME.fullmatch(spec.name):
            raise BackendRefused(
                f"pools.{spec.pool_name}", f"{spec.name!r} is not a valid folder name"
            )
        for directory, identity in self.owned(spec.name):
            if directory.fence() == DELETED_FENCE:
                continue
            if identity.image != spec.image:
                directory.write_identity(replace(identity, image=spec.image))
            return directory
        return self._create(spec)

    def _create(self, spec: ContainerSpec) -> ContainerDirectory:
        """Create the directory under a hidden name, so that a visible one is complete."""
        container_id = f"{spec.name}.{secrets.token_hex(3)}"
        hidden = self._directory(CREATING_PREFIX + container_id)
        Path(hidden.path).mkdir(mode=0o700)
        hidden.initialize(
            ContainerIdentity(
                name=spec.name,
                installation=self._installation_id,
                image=spec.image,
                created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
            )
        )
        directory = self._directory(container_id)
        Path(hidden.path).rename(directory.path)
        return directory

    async def remove(self, directory: ContainerDirectory) -> None:
        """Hide the directory with one rename, then remove its files."""
        hidden = Path(directory.path).rename(
            self._path / f"{DELETING_PREFIX}{directory.container_id}"
        )
        self._known.discard(directory.container_id)
        await asyncio.to_thread(shutil.rmtree, hidden, ignore_errors=True)
