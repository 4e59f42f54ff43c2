"""Implements the backend Protocol with local processes."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from botpool.backends.process import logs
from botpool.backends.process.bot_users import OUR_USER, BotUsers
from botpool.backends.process.container_directory import ContainerDirectory
from botpool.backends.process.container_root import ContainerRoot
from botpool.backends.process.exit_watcher import ExitWatcher
from botpool.backends.process.fork_server import ForkServer
from botpool.backends.process.launch import (
    ProgramSettings,
    absolute,
    check_answer,
    inherited_environment,
    launch,
    read_answer,
)
from botpool.backends.process.terminate import terminate_run
from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    Health,
    OwnedContainer,
    StartRequest,
    StopMode,
)
from botpool.domain.errors import BackendRefused, BackendUnavailable
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState, ExpectedRun, Observation

MAX_WITHOUT_THREAD = 8
"""Up to this many containers, observing takes less time than starting a thread."""


class ProcessBackend:
    """A container is a directory under `root`; each run is a process group."""

    name = "process"
    image_host = "here"
    status_lag_s = 0.0
    concurrent_starts: int | None = None
    concurrent_pulls = 1
    has_descriptions = False
    can_abandon_runs = False
    stop_removes_output = False

    def __init__(
        self,
        root: Path,
        installation_id: str,
        command: Sequence[str],
        first_start_s: float = 0,
        start_s: float = 0,
        stop_grace_s: float = 5,
        output_bytes: int = 1_048_576,
        users: BotUsers = OUR_USER,
    ) -> None:
        self._root = ContainerRoot(root, installation_id, is_passable=users.are_separate)
        self._users = users
        self._program = ProgramSettings(
            command=absolute(command),
            first_start_s=first_start_s,
            start_s=start_s,
            output_bytes=output_bytes,
        )
        self._stop_grace_s = stop_grace_s
        self._exit_watcher = ExitWatcher()
        self._fork_server = ForkServer(inherited_environment())

    async def open(self) -> None:
        with _os_errors_as_unavailable("open"):
            await self._root.prepare()
            for directory, _ in await asyncio.to_thread(self._root.owned):
                self._exit_watcher.add(directory)

    async def close(self) -> None:
        await self._exit_watcher.close()
        await asyncio.to_thread(self._fork_server.close)

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        async with _timeout_as_unavailable("ensure", timeout_s):
            self._root.require()
            async with self._root.creation_lock():
                directory = self._root.find_or_create(spec)
            await self._terminate(directory, stop_through, timeout_s)
            if directory.is_running():
                raise directory.not_ended(stop_through)
            return directory.container_id

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        async with _timeout_as_unavailable("start", timeout_s):
            directory = self._root.get(request.container_id)
            account = self._users.of(request.assignment_id)
            answer = launch(directory, request, self._program, account, self._fork_server)
            check_answer(await read_answer(answer), directory, request.assignment_id)
            self._exit_watcher.add(directory)
            return None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        return None

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        async with _timeout_as_unavailable("observe", timeout_s):
            if len(container_ids) <= MAX_WITHOUT_THREAD:
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
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        async with _timeout_as_unavailable("stop", timeout_s):
            directory = self._root.get(container_id)
            await self._terminate(directory, assignment_id, timeout_s, mode)

    async def _terminate(
        self,
        directory: ContainerDirectory,
        assignment_id: AssignmentId,
        timeout_s: float,
        mode: StopMode = StopMode.ASK_THEN_KILL,
    ) -> None:
        directory.raise_fence(assignment_id)  # before the lock is tested: see launcher.py
        if directory.is_running():
            await terminate_run(
                directory,
                assignment_id,
                mode=mode,
                grace_s=self._stop_grace_s,
                timeout_s=timeout_s,
            )

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        async with _timeout_as_unavailable("delete", timeout_s):
            directory = self._root.find(container_id)
            if directory is not None:
                await self._terminate(directory, stop_through, timeout_s)
                directory.refuse_further_runs(after=stop_through)
                await self._root.remove(directory)

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        async with _timeout_as_unavailable("list", timeout_s):
            owned = await asyncio.to_thread(self._root.owned)
            return [
                OwnedContainer(container_id=directory.container_id, name=identity.name)
                for directory, identity in owned
            ]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        async with _timeout_as_unavailable("describe", timeout_s):
            self._root.get(container_id).describe(text)

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        with _os_errors_as_unavailable("logs"):
            directory = self._root.find(container_id)
            if directory is not None:
                async for chunk in logs.stream(directory, assignment_id, tail=tail, follow=follow):
                    yield chunk

    def changes(self) -> AsyncIterator[ContainerId]:
        return self._exit_watcher.hints()

    async def check(self, *, timeout_s: float) -> Health:
        async with _timeout_as_unavailable("check", timeout_s):
            if not self._program.command or shutil.which(self._program.command[0]) is None:
                command = " ".join(self._program.command[:1])
                raise BackendRefused(
                    "backends.process.command",
                    f"{command!r} is not an executable program. Set its full path.",
                )
            self._root.require_writable()
            return Health(ok=True, weakness=self._users.problem)


@contextmanager
def _os_errors_as_unavailable(call: str) -> Iterator[None]:
    """Raise BackendUnavailable for an OSError, which says nothing about any container."""
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(f"{call}: {error}") from error


@asynccontextmanager
async def _timeout_as_unavailable(call: str, timeout_s: float) -> AsyncIterator[None]:
    with _os_errors_as_unavailable(call):
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError as error:
            raise BackendUnavailable(f"{call} did not end within {timeout_s:g} s") from error
