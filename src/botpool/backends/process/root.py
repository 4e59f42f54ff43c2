"""The folder of all containers, shared by installations; what to believe when it is not there.

A folder that cannot be read is an outage and never "all containers are gone". The hidden file that
`open` leaves in it tells a folder without containers from the empty mount point of a lost disk.
"""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from botpool.backends.process.directory import NEVER_AGAIN, Directory, Mark
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId

ROOT_MARK = ".botpool"
HALF_MADE = ".making."
HALF_DELETED = ".deleting."

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
CONTAINER_ID = re.compile(rf"(?P<name>{NAME.pattern})\.[0-9a-f]{{6}}")


class Root:
    def __init__(self, path: Path, installation_id: str) -> None:
        self._path = path.absolute()
        self._mark = self._path / ROOT_MARK
        self._installation_id = installation_id
        self._known: set[ContainerId] = set()
        """Seen to be ours. An id is never used again, so that stays true while it exists."""

    async def prepare(self) -> None:
        """Make the folder, and clear what a crash left half made or half deleted."""
        self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mark.touch(mode=0o600)
        async with self.making():
            for entry in list(self._path.iterdir()):
                if entry.name.startswith((HALF_MADE, HALF_DELETED)):
                    await asyncio.to_thread(shutil.rmtree, entry, ignore_errors=True)

    def require(self) -> None:
        """Nothing is missing from a folder that is itself missing."""
        if not self._mark.exists():
            raise BackendUnavailable(f"the folder of containers {self._path} cannot be read")

    def require_writable(self) -> None:
        self.require()
        with tempfile.TemporaryFile(dir=self._path) as probe:
            probe.write(b"writable?")

    def find(self, container_id: ContainerId) -> Directory | None:
        """The container, if it exists and is ours. Any string may be asked for."""
        if not CONTAINER_ID.fullmatch(container_id):
            return None
        directory = self._directory(container_id)
        if container_id in self._known and directory.exists():
            return directory
        mark = directory.mark()
        if mark is None or mark.installation != self._installation_id:
            self._known.discard(container_id)
            self.require()
            return None
        self._known.add(container_id)
        return directory

    def _directory(self, name: str) -> Directory:
        return Directory(str(self._path), ContainerId(name))

    def get(self, container_id: ContainerId) -> Directory:
        directory = self.find(container_id)
        if directory is None:
            raise ContainerGone(container_id)
        return directory

    def owned(self, name: str | None = None) -> list[tuple[Directory, Mark]]:
        """Our containers (of that name), the oldest first."""
        self.require()
        found = []
        for entry in self._path.iterdir():
            match = CONTAINER_ID.fullmatch(entry.name)
            if match is None or name not in (None, match["name"]):
                continue
            directory = self._directory(entry.name)
            mark = directory.mark()
            if mark is not None and mark.installation == self._installation_id:
                found.append((directory, mark))
        return sorted(found, key=lambda each: (each[1].created_at, each[0].container_id))

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """One maker at a time, over all control planes: two would make the same container twice."""
        fd = os.open(self._mark, os.O_RDWR | os.O_CLOEXEC)
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

    def find_or_make(self, spec: ContainerSpec) -> Directory:
        """Call it inside `making`. One whose deletion was begun can never run again: pass it."""
        if not NAME.fullmatch(spec.name):
            raise BackendRefused(f"pools.{spec.pool_name}", f"{spec.name!r} cannot name a folder")
        for directory, mark in self.owned(spec.name):
            if directory.fence() == NEVER_AGAIN:
                continue
            if mark.image != spec.image:
                directory.write_mark(replace(mark, image=spec.image))
            return directory
        return self._make(spec)

    def _make(self, spec: ContainerSpec) -> Directory:
        """Under a hidden name first: a directory with a container's name is whole."""
        container_id = f"{spec.name}.{secrets.token_hex(3)}"
        half_made = self._directory(HALF_MADE + container_id)
        Path(half_made.path).mkdir(mode=0o700)
        half_made.fill(
            Mark(
                name=spec.name,
                installation=self._installation_id,
                image=spec.image,
                created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
            )
        )
        directory = self._directory(container_id)
        Path(half_made.path).rename(directory.path)
        return directory

    async def remove(self, directory: Directory) -> None:
        """Out of sight in one step, then away at leisure."""
        delete_requested = Path(directory.path).rename(
            self._path / f"{HALF_DELETED}{directory.container_id}"
        )
        self._known.discard(directory.container_id)
        await asyncio.to_thread(shutil.rmtree, delete_requested, ignore_errors=True)
