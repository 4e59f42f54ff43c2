"""The process backend: each method of the Protocol in terms of the rooms next door."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from botpool.backends.process import logs
from botpool.backends.process.directory import NEVER_AGAIN, Directory
from botpool.backends.process.ending import end_run
from botpool.backends.process.nursery import Nursery
from botpool.backends.process.root import Root
from botpool.backends.process.start import Manner, answer_of, judge, launch, passed_on
from botpool.backends.process.watch import Watch
from botpool.backends.protocol import ContainerSpec, Health, OwnedContainer, StartRequest
from botpool.domain.errors import BackendRefused, BackendUnavailable, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState, Observation

FEW = 8
"""Containers that are looked at sooner than a thread would begin to."""


class ProcessBackend:
    """Containers are directories under `root`; a running one is a process group of its own."""

    name = "process"
    image_host = "here"
    status_lag_s = 0.0
    concurrent_starts: int | None = None
    has_descriptions = False

    def __init__(
        self,
        root: Path,
        installation_id: str,
        command: Sequence[str],
        first_start_s: float = 0,
        start_s: float = 0,
        stop_grace_s: float = 5,
        output_bytes: int = 1_048_576,
    ) -> None:
        self._root = Root(root, installation_id)
        self._manner = Manner(
            command=_absolute(command),
            first_start_s=first_start_s,
            start_s=start_s,
            output_bytes=output_bytes,
        )
        self._stop_grace_s = stop_grace_s
        self._watch = Watch()
        self._nursery = Nursery(passed_on())

    async def open(self) -> None:
        with _no_evidence("open"):
            await self._root.prepare()
            for directory, _ in await asyncio.to_thread(self._root.owned):
                self._watch.add(directory)

    async def close(self) -> None:
        await self._watch.close()
        await asyncio.to_thread(self._nursery.close)

    async def ensure(self, spec: ContainerSpec, *, timeout_s: float) -> ContainerId:
        async with _bounded("ensure", timeout_s):
            self._root.require()
            async with self._root.making():
                directory = self._root.find_or_make(spec)
            await self._end(directory, None, timeout_s)
            _require_ended(directory)
            return directory.container_id

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        async with _bounded("start", timeout_s):
            directory = self._root.get(order.container_id)
            heard = launch(directory, order, self._manner, self._nursery)
            judge(await answer_of(heard), directory, order.assignment_id)
            self._watch.add(directory)
            return None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        return None

    async def observe(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, Observation]:
        async with _bounded("look", timeout_s):
            if len(container_ids) <= FEW:
                return self._observe_all(container_ids)
            return await asyncio.to_thread(self._observe_all, container_ids)

    def _observe_all(
        self, container_ids: Sequence[ContainerId]
    ) -> Mapping[ContainerId, Observation]:
        return {container_id: self._observe(container_id) for container_id in container_ids}

    def _observe(self, container_id: ContainerId) -> Observation:
        directory = self._root.find(container_id)
        if directory is not None:
            try:
                return directory.observe()
            except FileNotFoundError:
                if self._root.find(container_id) is not None:
                    raise
        return Observation(container_id=container_id, state=ContainerState.GONE)

    async def stop(
        self, container_id: ContainerId, assignment_id: AssignmentId | None, *, timeout_s: float
    ) -> None:
        async with _bounded("stop", timeout_s):
            directory = self._root.get(container_id)
            await self._end(directory, assignment_id, timeout_s)

    async def _end(
        self, directory: Directory, assignment_id: AssignmentId | None, timeout_s: float
    ) -> None:
        if assignment_id is not None:
            directory.raise_fence(assignment_id)  # before end_run tests the lock: see launcher.py
        if directory.is_held():
            await end_run(directory, assignment_id, grace_s=self._stop_grace_s, timeout_s=timeout_s)

    async def delete(self, container_id: ContainerId, *, timeout_s: float) -> None:
        async with _bounded("delete", timeout_s):
            directory = self._root.find(container_id)
            if directory is not None:
                directory.raise_fence(NEVER_AGAIN)
                await self._end(directory, None, timeout_s)
                _require_ended(directory)
                await self._root.remove(directory)

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        async with _bounded("list", timeout_s):
            owned = await asyncio.to_thread(self._root.owned)
            return [
                OwnedContainer(container_id=directory.container_id, name=mark.name)
                for directory, mark in owned
            ]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        async with _bounded("describe", timeout_s):
            self._root.get(container_id).describe(text)

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        with _no_evidence("logs"):
            directory = self._root.find(container_id)
            if directory is not None:
                async for chunk in logs.read(directory, assignment_id, tail=tail, follow=follow):
                    yield chunk

    def changes(self) -> AsyncIterator[ContainerId]:
        return self._watch.hints()

    async def check(self, *, timeout_s: float) -> Health:
        async with _bounded("check", timeout_s):
            if not self._manner.command or shutil.which(self._manner.command[0]) is None:
                command = " ".join(self._manner.command[:1])
                raise BackendRefused(
                    "backends.process.command",
                    f"{command!r} is no program that can be run here; give its full path",
                )
            self._root.require_writable()
            return Health(ok=True)


def _absolute(command: Sequence[str]) -> tuple[str, ...]:
    """A relative path means relative to us: the program runs in a folder of its own."""
    if command and os.sep in command[0]:
        return (str(Path(command[0]).absolute()), *command[1:])
    return tuple(command)


def _require_ended(directory: Directory) -> None:
    if directory.is_held():
        raise StillRunning(f"the program in {directory.container_id} does not end")


@contextmanager
def _no_evidence(call: str) -> Iterator[None]:
    """What the machine refuses, a full disk for one, says nothing about any container."""
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(f"{call}: {error}") from error


@asynccontextmanager
async def _bounded(call: str, timeout_s: float) -> AsyncIterator[None]:
    with _no_evidence(call):
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError as error:
            raise BackendUnavailable(f"{call} did not end within {timeout_s:g} s") from error
