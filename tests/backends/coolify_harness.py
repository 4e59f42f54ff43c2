"""The conformance harness of the Coolify backend: the emulator with accelerated time.

Containers are real processes. All backends share one emulator in memory; outages and crashes happen
in their transports.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from botpool.backends.coolify import CoolifyBackend, CoolifyConfig
from botpool.backends.protocol import RequestPurpose, StartRequest
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.emulators.coolify import (
    EmulatedClock,
    EmulatedCoolify,
    EmulatorConfig,
    ProcessRuntime,
)
from tests.backends.harness import TIMEOUT_S, Capabilities, ProgramRun
from tests.support.emulated_transport import EmulatedTransport

COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).parent / "bot_program.py"))
SCALE = 50.0
CONFIG = EmulatorConfig(
    first_start_s=6.0,
    start_s=6.0,
    stop_s=(1.0, 5.0),
    delete_s=(1.0, 5.0),
    status_lag_s=(0.0, 10.0),
    requests_per_minute=1_000_000,
)
_TICK_S = 0.005


class CountingBudget:
    """An unlimited budget that records the requests."""

    def __init__(self) -> None:
        self.taken: list[tuple[RequestPurpose, int]] = []
        self.paused_s: list[float] = []

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        self.taken.append((purpose, requests))

    async def pause(self, seconds: float) -> None:
        self.paused_s.append(seconds)


def config(installation: str = "one", **changes: object) -> CoolifyConfig:
    fields = {
        "url": "http://coolify",
        "token": CONFIG.token,
        "project_uuid": CONFIG.project,
        "server_uuid": CONFIG.server,
        "environment_name": CONFIG.environment,
        "installation_id": installation,
        "follow_interval_s": 0.05,
    }
    return CoolifyConfig(**{**fields, **changes})  # type: ignore[arg-type]


class SimulatedKill(BaseException):
    """Simulates the kill of a replica during a request."""


class InterruptibleTransport(httpx.AsyncBaseTransport):
    """A transport to the emulator that can be interrupted."""

    def __init__(self, emulated: EmulatedTransport) -> None:
        self._emulated = emulated
        self.is_cut = False
        self.kill_after_path = ""
        """A request whose path ends with this kills the replica before the response."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        if self.is_cut:
            raise httpx.ConnectError("cut", request=request)
        response = await self._emulated.handle_async_request(request)
        if self.kill_after_path and request.url.path.endswith(self.kill_after_path):
            raise SimulatedKill
        return response


class CoolifyHarness:
    capabilities = Capabilities(
        shows_exit_codes=False,
        keeps_output=False,
        removes_variables=False,
        recognizes_owners=False,
        takes_effect_at_once=False,
    )

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._reports = folder / "reports"
        self._reports.mkdir()
        self._runtime = ProcessRuntime(COMMAND)
        self.clock = EmulatedClock(SCALE)
        self.coolify = EmulatedCoolify(CONFIG, seed=seed, runtime=self._runtime)
        self._emulated = EmulatedTransport(self.coolify, self.clock)
        self._transports: list[InterruptibleTransport] = []
        self._open: list[CoolifyBackend] = []
        self.budget = CountingBudget()
        self._ticking = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            self.coolify.advance(self.clock.now())
            await asyncio.sleep(_TICK_S)

    async def open_backend(self, installation: str = "one", start_s: float = 0) -> CoolifyBackend:
        if start_s:
            seconds = start_s * SCALE
            self.coolify.set_faults({"pullSlow": {"seconds": seconds, "probability": 1}})
        transport = InterruptibleTransport(self._emulated)
        backend = CoolifyBackend(config(installation), self.budget, transport=transport)
        await backend.open()
        self._transports.append(transport)
        self._open.append(backend)
        return backend

    def program_environment(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "REPORT_TO": str(self._reports),
        }

    def runs(self, assignment_id: AssignmentId) -> Sequence[ProgramRun]:
        found = self._reports.glob(f"{assignment_id}.*.json")
        return [ProgramRun(**json.loads(path.read_text())) for path in found]

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        oldest = self.coolify.applications[container_id]
        younger = self.coolify.create_application(
            name=oldest.name, image=oldest.image, tag=oldest.tag, tags=oldest.tags
        )
        return ContainerId(younger.uuid)

    async def crash_during_start(self, request: StartRequest) -> None:
        """Kill the replica after Coolify has accepted the start."""
        killed = await self.open_backend()
        self._transports[-1].kill_after_path = "/start"
        with suppress(SimulatedKill):
            await killed.start(request, timeout_s=TIMEOUT_S)

    @contextmanager
    def outage(self) -> Iterator[None]:
        for transport in self._transports:
            transport.is_cut = True
        yield
        for transport in self._transports:
            transport.is_cut = False

    async def clear(self) -> None:
        self._ticking.cancel()
        for backend in self._open:
            await backend.close()
        self._runtime.close()
