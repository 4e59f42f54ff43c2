"""The wrapper in real pools: programs with neither Python nor an agent, on process and Docker."""

import re
import shlex
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents.plan import BOTS
from tests.support.agent_programs import wrapper_program
from tests.support.bot_image import linked_libraries, plain_archive
from tests.support.components import missing
from tests.support.docker_installation import docker_installation, pool
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import FixedPortInstallation, wait_for
from tests.support.ports import free_port
from tests.support.server import installation

pytestmark = pytest.mark.timeout(300)

AGENT = "/usr/bin/botpool-agent"
LINK = "https://meet.google.com/abc-defg-hij?pwd=s3cret"


def busybox() -> Path:
    found = shutil.which("busybox")
    if found is None:
        missing("busybox", "install the package busybox-static")
    return Path(found).resolve()


def node() -> Path:
    found = shutil.which("node")
    if found is None:
        missing("Node", "install the package nodejs")
    return Path(found).resolve()


def busybox_image() -> tuple[list[str], dict[str, Path]]:
    files = {"/bin/busybox": busybox(), "/bot.sh": BOTS / "busybox_bot.sh"}
    return ["/bin/busybox", "sh", "/bot.sh"], files


def node_image() -> tuple[list[str], dict[str, Path]]:
    program = node()
    files = {"/bin/node": program, "/bot.mjs": BOTS / "node_bot.mjs"}
    return ["/bin/node", "/bot.mjs"], files | {
        path: Path(path) for path in linked_libraries(program)
    }


IMAGES: dict[str, Callable[[], tuple[list[str], dict[str, Path]]]] = {
    "busybox": busybox_image,
    "node": node_image,
}


class Pool:
    """A pool of wrapped bots, with the HTTP calls of these tests."""

    def __init__(self, installed: FixedPortInstallation) -> None:
        self.installed = installed

    async def send(self, **bot_data: object) -> int:
        body = {"meetingUrl": LINK, "platform": "google-meet", "botData": bot_data}
        created = await self.installed.call("POST", "/v1/bots", json=body)
        bot_id: int = created["bot"]["id"]
        return bot_id

    async def ask_to_leave(self, bot_id: int) -> None:
        await self.installed.call("DELETE", f"/v1/bots/{bot_id}")

    async def reaches(self, bot_id: int, status: str) -> dict[str, Any]:
        async def reached() -> bool:
            return (await self.installed.bot(bot_id))["status"] == status

        await wait_for(f"bot {bot_id} to be {status}", reached, within_s=90)
        return await self.installed.bot(bot_id)

    async def statuses(self, bot_id: int) -> list[str]:
        events = await self.installed.events(bot_id)
        return [event["to"] for event in events if event["kind"] == "bot.status"]


@asynccontextmanager
async def process_pool(program: str, database_url: str, folder: Path) -> AsyncIterator[Pool]:
    command = {
        "busybox": lambda: [str(busybox()), "sh", str(BOTS / "busybox_bot.sh")],
        "node": lambda: [str(node()), str(BOTS / "node_bot.mjs")],
    }[program]()
    port = free_port()
    settings = {
        "pools.google-meet.max_size": "1",
        "backends.process.command": shlex.join([str(wrapper_program()), "run", "--", *command]),
        "agent.heartbeat_interval_ms": "300",
    }
    async with installation(database_url, folder, settings) as installed:
        fixed = FixedPortInstallation(
            database_url=installed.database_url,
            data_dir=installed.data_dir,
            settings=installed.settings,
            key=installed.key,
            secret=installed.secret,
            servers=installed.servers,
            port=port,
        )
        await fixed.serve()
        yield Pool(fixed)


@asynccontextmanager
async def docker_pool(
    program: str, dockerd: Dockerd, database_url: str, folder: Path
) -> AsyncIterator[Pool]:
    command, files = IMAGES[program]()
    image = f"wrapped-{program}:1"
    files = {AGENT: wrapper_program(), **files}
    dockerd.load(plain_archive([image], [AGENT, "run", "--", *command], files))
    settings = pool("google-meet", image, 1) | {"agent.heartbeat_interval_ms": "300"}
    async with docker_installation(dockerd, database_url, folder, **settings) as installed:
        await installed.serve()
        yield Pool(installed)


async def assert_runs_leaves_and_fails(pool: Pool, parent: str) -> None:
    bot_id = await pool.send()
    await pool.reaches(bot_id, "IN_CALL")
    await pool.ask_to_leave(bot_id)
    await pool.reaches(bot_id, "DONE")
    statuses = await pool.statuses(bot_id)
    assert statuses[-2:] == ["CALL_ENDED", "DONE"]
    assert "IN_CALL" in statuses
    output = await pool.installed.bot_output(bot_id)
    assert re.search(rf"joining \S*meet.google.com\S* as child of process {parent}\n", output)
    assert "recording saved" in output
    assert "s3cret" not in output

    failed = await pool.reaches(await pool.send(exitCode=3), "FAILED")
    assert failed["failureCode"] == "meeting_failed"
    assert "exited with code 3" in failed["failureReason"]
    assert "the host has removed the bot" in failed["failureReason"]


@pytest.mark.parametrize("program", IMAGES)
async def test_program_without_agent_runs_as_a_local_process(
    program: str, database_url: str, tmp_path: Path
) -> None:
    async with process_pool(program, database_url, tmp_path) as pool:
        await assert_runs_leaves_and_fails(pool, parent=r"\d+")


@pytest.mark.parametrize("program", IMAGES)
async def test_image_with_neither_python_nor_an_agent_runs_on_docker(
    program: str, dockerd: Dockerd, database_url: str, tmp_path: Path
) -> None:
    """The wrapper is process 1 there."""
    async with docker_pool(program, dockerd, database_url, tmp_path) as pool:
        await assert_runs_leaves_and_fails(pool, parent="1")
