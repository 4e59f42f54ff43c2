"""Point 17: a real process in each container."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from botpool.emulators.coolify import EmulatorServer, ProcessRuntime, ScaledClock, World
from tests.backends.emulator.emulated_coolify import (
    HEADERS,
    IMAGE,
    NO_LAG,
    PLACE,
    Coolify,
    emulated,
)

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: open(sys.argv[1] + "/asked", "w").close())
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1] + "/pids.new", "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + "/pids.new", sys.argv[1] + "/pids")
while True:
    time.sleep(0.05)
"""
TELLS_ITS_ENVIRONMENT = """
import json, os, sys
print("hello from the container", flush=True)
open(sys.argv[1] + "/new", "w").write(json.dumps(dict(os.environ)))
os.rename(sys.argv[1] + "/new", sys.argv[1] + "/environment")
sys.stdin.read()
import time; time.sleep(600)
"""


def eventually(true: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def runtime_of(tmp_path: Path) -> Iterator[Callable[[str], ProcessRuntime]]:
    made: list[ProcessRuntime] = []

    def make(program: str) -> ProcessRuntime:
        made.append(ProcessRuntime([sys.executable, "-c", program, str(tmp_path)]))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


async def _started(coolify: Coolify) -> str:
    coolify.world.deployments.images.add(IMAGE)
    uuid = await coolify.create()
    await coolify.write(uuid, {"BOT_DATA": '{"id": 7}', "BROKEN": "it's"}, is_literal=True)
    await coolify.start(uuid)
    coolify.wait(34)
    return uuid


async def test_the_process_gets_its_environment_and_no_more(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    async with emulated(NO_LAG, runtime=runtime_of(TELLS_ITS_ENVIRONMENT)) as coolify:
        uuid = await _started(coolify)
        eventually((tmp_path / "environment").exists)
        environment = json.loads((tmp_path / "environment").read_text())
        assert environment["COOLIFY_RESOURCE_UUID"] == uuid
        assert environment["BOT_DATA"] == '{"id": 7}'
        assert environment["BROKEN"] == "it"
        assert "SECRET_OF_THE_HOST" not in environment
        logs = await coolify.get(f"/applications/{uuid}/logs?lines=10")
        assert logs == {"logs": "hello from the container\n"}


async def test_a_stop_asks_first_and_kills_the_whole_group_after_the_grace(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path
) -> None:
    async with emulated(NO_LAG, runtime=runtime_of(STUBBORN)) as coolify:
        uuid = await _started(coolify)
        eventually((tmp_path / "pids").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert os.getsid(pids[0]) == pids[0] != os.getsid(0)
        await coolify.stop(uuid)
        coolify.wait(2)
        eventually((tmp_path / "asked").exists)
        coolify.wait(20)
        assert coolify.truth(uuid) and all(map(alive, pids)), "it has a grace of 30 s"
        coolify.wait(15)
        assert not coolify.truth(uuid)
        eventually(lambda: not any(map(alive, pids)))


def test_each_run_has_a_directory_of_its_own(tmp_path: Path) -> None:
    program = """
import os, pathlib, sys
told = pathlib.Path(sys.argv[1]) / os.environ["RUN"]
told.with_suffix(".new").write_text(f"{os.getcwd()} {os.environ['HOME']} {os.listdir()}")
pathlib.Path("left-behind").touch()
told.with_suffix(".new").rename(told)
import time; time.sleep(600)
"""
    seen: list[list[str]] = []
    with ProcessRuntime([sys.executable, "-c", program, str(tmp_path)]) as runtime:
        for run in ("first", "second"):
            handle = runtime.start("uuid", {"RUN": run})
            eventually((tmp_path / run).exists)
            seen.append((tmp_path / run).read_text().split())
            assert Path(seen[-1][0]).is_dir()
            runtime.stop(handle)
            assert not Path(seen[-1][0]).exists(), "what is gone leaves nothing on the disk"
    assert [(home == directory, files) for directory, home, files in seen] == [(True, "[]")] * 2
    assert seen[0][0] != seen[1][0]


async def test_what_ends_by_itself_is_exited(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path
) -> None:
    async with emulated(NO_LAG, runtime=runtime_of("pass")) as coolify:
        uuid = await _started(coolify)

        def exited() -> bool:
            coolify.wait(0)
            return not coolify.truth(uuid)

        eventually(exited)
        coolify.wait(1)
        assert await coolify.status(uuid) == "exited:unhealthy"


async def test_nothing_is_left_when_the_emulator_ends(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.emulators.coolify.processes._CLOSE_GRACE_S", 0.1)
    runtime = runtime_of(STUBBORN)
    async with emulated(NO_LAG, runtime=runtime) as coolify:
        await _started(coolify)
        eventually((tmp_path / "pids").exists)
    runtime.close()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    eventually(lambda: not any(map(alive, pids)))


async def test_what_cannot_be_started_has_exited() -> None:
    with ProcessRuntime(["/nowhere/program"]) as runtime:
        async with emulated(NO_LAG, runtime=runtime) as coolify:
            uuid = await _started(coolify)
            assert not coolify.truth(uuid)


async def test_impossible_variables_do_no_harm() -> None:
    with ProcessRuntime([sys.executable, "-c", "import time; time.sleep(600)"]) as runtime:
        async with emulated(NO_LAG, runtime=runtime) as coolify:
            uuid = await coolify.create()
            await coolify.write(uuid, {"A=B": "x", "N": "a\0b", "S": "\ud800"})
            await coolify.start(uuid)
            coolify.wait(600)
            assert coolify.truth(uuid)


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botpool.emulators.coolify.processes.MOST_OUTPUT_BYTES", 1000)
    chatty = "import sys\nfor line in open(sys.argv[1]): print('x' * int(line), flush=True)"
    with tempfile.TemporaryDirectory() as directory:
        orders = Path(directory) / "orders"
        os.mkfifo(orders)
        with ProcessRuntime([sys.executable, "-c", chatty, str(orders)]) as runtime:
            handle = runtime.start("uuid", {})
            with orders.open("w", buffering=1) as order:
                order.write("5000\n")
                eventually(lambda: len(runtime.output(handle, 10)) == 5001)
                assert runtime.is_running(handle)
                assert runtime.output(handle, 10) == ""
                order.write("7\n")
                eventually(lambda: runtime.output(handle, 10) == "xxxxxxx\n")


async def test_an_end_is_noticed_while_nobody_asks(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path
) -> None:
    world = World(NO_LAG, runtime=runtime_of(STUBBORN))
    async with EmulatorServer(world, ScaledClock()):
        application = world.create_application(name="bot", image="team/bot", tag="1")
        world.run_at_once(application)
        eventually((tmp_path / "pids").exists)
        await asyncio.sleep(0)
        assert application.status == "running:unknown"
        os.kill(int((tmp_path / "pids").read_text().split()[0]), signal.SIGKILL)
        deadline = time.monotonic() + 30
        while application.status != "exited:unhealthy" and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert application.status == "exited:unhealthy"


@pytest.fixture
async def control_plane() -> AsyncIterator[tuple[str, list[str]]]:
    """As much of Botpool as the demo bot needs to see."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.decode().splitlines()[0].removesuffix(" HTTP/1.1"))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}", asked


async def test_the_demo_bot_calls_home(control_plane: tuple[str, list[str]]) -> None:
    """The whole way: server, socket, deployment, process, agent."""
    url, asked = control_plane
    with ProcessRuntime() as runtime:
        world = World(NO_LAG, runtime=runtime)
        async with (
            EmulatorServer(world, ScaledClock(600)) as server,
            httpx.AsyncClient(base_url=f"{server.url}/api/v1", headers=HEADERS) as client,
        ):
            created = await client.post(
                "/applications/dockerimage",
                json={**PLACE, "docker_registry_image_name": "team/bot"},
            )
            uuid = created.json()["uuid"]
            variables = {"BOTPOOL_URL": url, "BOTPOOL_TOKEN": "1.abc"}
            await client.patch(
                f"/applications/{uuid}/envs/bulk",
                json={
                    "data": [
                        {"key": key, "value": value, "is_literal": True}
                        for key, value in variables.items()
                    ]
                },
            )
            await client.post(f"/applications/{uuid}/start")
            deadline = time.monotonic() + 30
            while not asked and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            assert asked[0] == f"GET /v1/agent/slot?containerId={uuid}"
