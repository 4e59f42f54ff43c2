"""The conformance suite's view of Coolify: the emulator, in time that runs fast.

Containers are real processes. The control planes share one emulator in memory; what they are kept
from seeing (an outage, a crash) happens in the transport between.
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
    EmulatedCoolify,
    EmulatedTransport,
    EmulatorConfig,
    ProcessRuntime,
    ScaledClock,
)
from tests.backends.harness import TIMEOUT_S, Traits, Witness

COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).parent / "program.py"))
SCALE = 50.0
NATURE = EmulatorConfig(
    first_start_s=6.0,
    start_s=6.0,
    stop_s=(1.0, 5.0),
    delete_s=(1.0, 5.0),
    status_lag_s=(0.0, 10.0),
    requests_per_minute=1_000_000,
)
_TICK_S = 0.005


class CountingBudget:
    """As many requests as anybody wants, and who took them."""

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
        "token": NATURE.token,
        "project_uuid": NATURE.project,
        "server_uuid": NATURE.server,
        "environment_name": NATURE.environment,
        "installation_id": installation,
        "follow_interval_s": 0.05,
    }
    return CoolifyConfig(**{**fields, **changes})  # type: ignore[arg-type]


class Killed(BaseException):
    """The control plane ends here, in the middle of a request."""


class Line(httpx.AsyncBaseTransport):
    """The way to the emulator, which can be cut."""

    def __init__(self, emulated: EmulatedTransport) -> None:
        self._emulated = emulated
        self.is_cut = False
        self.dies_after = ""
        """The end of a path: whoever posts to it is killed before the answer."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        if self.is_cut:
            raise httpx.ConnectError("cut", request=request)
        answer = await self._emulated.handle_async_request(request)
        if self.dies_after and request.url.path.endswith(self.dies_after):
            raise Killed
        return answer


class CoolifyHarness:
    traits = Traits(
        shows_exit_codes=False,
        keeps_output=False,
        removes_variables=False,
        knows_owners=False,
        is_prompt=False,
    )

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._witnesses = folder / "witnesses"
        self._witnesses.mkdir()
        self._runtime = ProcessRuntime(COMMAND)
        self.clock = ScaledClock(SCALE)
        self.world = EmulatedCoolify(NATURE, seed=seed, runtime=self._runtime)
        self._emulated = EmulatedTransport(self.world, self.clock)
        self._lines: list[Line] = []
        self._open: list[CoolifyBackend] = []
        self.budget = CountingBudget()
        self._ticking = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            self.world.advance(self.clock.now())
            await asyncio.sleep(_TICK_S)

    async def control_plane(self, installation: str = "one", start_s: float = 0) -> CoolifyBackend:
        if start_s:
            seconds = start_s * SCALE
            self.world.set_faults({"pullSlow": {"seconds": seconds, "probability": 1}})
        line = Line(self._emulated)
        backend = CoolifyBackend(config(installation), self.budget, transport=line)
        await backend.open()
        self._lines.append(line)
        self._open.append(backend)
        return backend

    def program(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "WITNESS": str(self._witnesses),
        }

    def runs(self, assignment_id: AssignmentId) -> Sequence[Witness]:
        found = self._witnesses.glob(f"{assignment_id}.*.json")
        return [Witness(**json.loads(path.read_text())) for path in found]

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        oldest = self.world.applications[container_id]
        younger = self.world.create_application(
            name=oldest.name, image=oldest.image, tag=oldest.tag, tags=oldest.tags
        )
        return ContainerId(younger.uuid)

    async def crash_in_start(self, order: StartRequest) -> None:
        """Killed when Coolify has taken the start, and its answer is still on the way."""
        dying = await self.control_plane()
        self._lines[-1].dies_after = "/start"
        with suppress(Killed):
            await dying.start(order, timeout_s=TIMEOUT_S)

    @contextmanager
    def outage(self) -> Iterator[None]:
        for line in self._lines:
            line.is_cut = True
        yield
        for line in self._lines:
            line.is_cut = False

    async def clear(self) -> None:
        self._ticking.cancel()
        for backend in self._open:
            await backend.close()
        self._runtime.close()
