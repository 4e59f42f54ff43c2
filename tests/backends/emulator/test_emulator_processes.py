"""Containers that run as local processes."""

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

from botpool.emulators.coolify import EmulatedClock, EmulatedCoolify, EmulatorServer, ProcessRuntime
from tests.backends.emulator.coolify_client import (
    HEADERS,
    IMAGE,
    LOCATION,
    NO_LAG,
    CoolifyClient,
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
WRITES_ITS_ENVIRONMENT = """
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
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def runtime_of(tmp_path: Path) -> Iterator[Callable[[str], ProcessRuntime]]:
    runtimes: list[ProcessRuntime] = []

    def create(program: str) -> ProcessRuntime:
        runtimes.append(ProcessRuntime([sys.executable, "-c", program, str(tmp_path)]))
        return runtimes[-1]

    yield create
    for runtime in runtimes:
        runtime.close()


async def _started(coolify: CoolifyClient) -> str:
    coolify.emulated.deployments.images.add(IMAGE)
    uuid = await coolify.create()
    await coolify.write(uuid, {"BOT_DATA": '{"id": 7}', "BROKEN": "it's"}, is_literal=True)
    await coolify.start(uuid)
    coolify.wait(34)
    return uuid


async def test_process_gets_only_its_own_environment(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    async with emulated(NO_LAG, runtime=runtime_of(WRITES_ITS_ENVIRONMENT)) as coolify:
        uuid = await _started(coolify)
        eventually((tmp_path / "environment").exists)
        environment = json.loads((tmp_path / "environment").read_text())
        assert environment["COOLIFY_RESOURCE_UUID"] == uuid
        assert environment["BOT_DATA"] == '{"id": 7}'
        assert environment["BROKEN"] == "it"
        assert "SECRET_OF_THE_HOST" not in environment
        logs = await coolify.get(f"/applications/{uuid}/logs?lines=10")
        assert logs == {"logs": "hello from the container\n"}


async def test_stop_sends_sigterm_and_kills_process_group_after_grace_period(
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
        assert coolify.is_running(uuid) and all(map(alive, pids)), "the grace period is 30 s"
        coolify.wait(15)
        assert not coolify.is_running(uuid)
        eventually(lambda: not any(map(alive, pids)))


def test_each_run_has_its_own_directory(tmp_path: Path) -> None:
    program = """
import os, pathlib, sys
expected = pathlib.Path(sys.argv[1]) / os.environ["RUN"]
expected.with_suffix(".new").write_text(f"{os.getcwd()} {os.environ['HOME']} {os.listdir()}")
pathlib.Path("left-behind").touch()
expected.with_suffix(".new").rename(expected)
import time; time.sleep(600)
"""
    observed: list[list[str]] = []
    with ProcessRuntime([sys.executable, "-c", program, str(tmp_path)]) as runtime:
        for run in ("first", "second"):
            handle = runtime.start("uuid", {"RUN": run})
            eventually((tmp_path / run).exists)
            observed.append((tmp_path / run).read_text().split())
            assert Path(observed[-1][0]).is_dir()
            runtime.stop(handle)
            assert not Path(observed[-1][0]).exists(), "the directory is removed"
    assert [(home == directory, files) for directory, home, files in observed] == [(True, "[]")] * 2
    assert observed[0][0] != observed[1][0]


COUNTS_ITS_BOOTS = """
import os, sys
with open(sys.argv[1] + "/boots", "a") as boots:
    boots.write(os.environ["BOT_DATA"] + "\\n")
"""


async def test_container_that_exits_is_restarted_until_coolify_stops_the_application(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path
) -> None:
    """Exit code 0 makes no difference, and the environment stays the same."""
    async with emulated(NO_LAG, runtime=runtime_of(COUNTS_ITS_BOOTS)) as coolify:
        uuid = await _started(coolify)
        statuses = set()

        def stopped() -> bool:
            coolify.wait(1)
            statuses.add(coolify.emulated.applications[uuid].status)
            return not coolify.emulated.applications[uuid].containers

        eventually(stopped, limit_s=60)
        boots = (tmp_path / "boots").read_text().splitlines()
        assert boots == ['{"id": 7}'] * 11, "the start and ten restarts"
        assert "restarting:unknown" in statuses
        coolify.wait(1)
        assert await coolify.status(uuid) == "exited:unhealthy"


async def test_stopped_container_is_not_restarted(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path
) -> None:
    async with emulated(NO_LAG, runtime=runtime_of(WRITES_ITS_ENVIRONMENT)) as coolify:
        uuid = await _started(coolify)
        eventually((tmp_path / "environment").exists)
        await coolify.stop(uuid)
        for _ in range(60):
            coolify.wait(1)
        assert not coolify.emulated.applications[uuid].containers
        assert await coolify.status(uuid) == "exited:unhealthy"


async def test_close_ends_all_processes(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.emulators.coolify.process_runtime._CLOSE_GRACE_S", 0.1)
    runtime = runtime_of(STUBBORN)
    async with emulated(NO_LAG, runtime=runtime) as coolify:
        await _started(coolify)
        eventually((tmp_path / "pids").exists)
    runtime.close()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    eventually(lambda: not any(map(alive, pids)))


async def test_program_that_cannot_start_counts_as_exited() -> None:
    with ProcessRuntime(["/nowhere/program"]) as runtime:
        async with emulated(NO_LAG, runtime=runtime) as coolify:
            uuid = await _started(coolify)
            assert not coolify.is_running(uuid)
            coolify.wait(1)
            assert coolify.emulated.applications[uuid].containers[0].restarts == 1


async def test_invalid_variables_do_not_prevent_start() -> None:
    with ProcessRuntime([sys.executable, "-c", "import time; time.sleep(600)"]) as runtime:
        async with emulated(NO_LAG, runtime=runtime) as coolify:
            uuid = await coolify.create()
            await coolify.write(uuid, {"A=B": "x", "N": "a\0b", "S": "\ud800"})
            await coolify.start(uuid)
            coolify.wait(600)
            assert coolify.is_running(uuid)


def test_output_is_truncated_at_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botpool.emulators.coolify.process_runtime.MAX_OUTPUT_BYTES", 1000)
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


async def test_server_detects_exit_without_requests(
    runtime_of: Callable[[str], ProcessRuntime], tmp_path: Path
) -> None:
    coolify = EmulatedCoolify(NO_LAG, runtime=runtime_of(STUBBORN))
    async with EmulatorServer(coolify, EmulatedClock()):
        application = coolify.create_application(name="bot", image="team/bot", tag="1")
        coolify.run_without_deployment(application)
        eventually((tmp_path / "pids").exists)
        await asyncio.sleep(0)
        assert application.status == "running:unknown"
        os.kill(int((tmp_path / "pids").read_text().split()[0]), signal.SIGKILL)
        deadline = time.monotonic() + 30
        (container,) = application.containers
        while container.restarts == 0 and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert (container.restarts, application.running) == (1, True)


@pytest.fixture
async def control_plane() -> AsyncIterator[tuple[str, list[str]]]:
    """An HTTP server that records requests and answers 401."""
    requests: list[str] = []

    async def response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        requests.append(head.decode().splitlines()[0].removesuffix(" HTTP/1.1"))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(response, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}", requests


async def test_demo_bot_in_container_calls_control_plane(
    control_plane: tuple[str, list[str]],
) -> None:
    url, requests = control_plane
    with ProcessRuntime() as runtime:
        coolify = EmulatedCoolify(NO_LAG, runtime=runtime)
        async with (
            EmulatorServer(coolify, EmulatedClock(600)) as server,
            httpx.AsyncClient(base_url=f"{server.url}/api/v1", headers=HEADERS) as client,
        ):
            created = await client.post(
                "/applications/dockerimage",
                json={**LOCATION, "docker_registry_image_name": "team/bot"},
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
            while not requests and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            assert requests[0].startswith(f"GET /v1/agent/slot?containerId={uuid}&bootId=")
