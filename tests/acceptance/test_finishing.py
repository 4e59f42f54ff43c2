"""Bots that upload a recording after their call, on local processes and on Docker.

Times are scaled: the grace of a leave request is a second, and an upload takes several. The long
test runs an upload of four minutes with the default times.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_installation import docker_installation, load_image, pool
from tests.support.fixed_port_installation import (
    FixedPortInstallation,
    wait_for,
)
from tests.support.invariants import assert_settled
from tests.support.ports import free_port

BACKENDS = pytest.mark.parametrize("backend", ["process", "docker"])
NEVER_ENDS = {"joinSeconds": 0, "staySeconds": 3600}
ENDS_SOON = {"joinSeconds": 0, "staySeconds": 0}
UPLOAD_S = 12
QUICK = {"agent.leave_grace_s": "1", "agent.heartbeat_interval_ms": "500"}


@asynccontextmanager
async def installation(
    backend: str, request: pytest.FixtureRequest, **settings: str
) -> AsyncIterator[FixedPortInstallation]:
    """An installation with the pools zoom and teams, whose bots have two seconds to finish."""
    database_url: str = request.getfixturevalue("database_url")
    data_dir: Path = request.getfixturevalue("tmp_path")
    settings = settings | {"pools.teams.finish_timeout_s": "2", "pools.teams.stop_grace_s": "1"}
    if backend == "docker":
        dockerd = request.getfixturevalue("dockerd")
        image = load_image(dockerd)
        pools = pool("zoom", image, 5) | pool("teams", image, 1)
        async with docker_installation(dockerd, database_url, data_dir, **pools, **settings) as on:
            yield on
        return
    installed = FixedPortInstallation(
        database_url=database_url,
        data_dir=data_dir,
        port=free_port(),
        settings={"pools.zoom.max_size": "5", "pools.teams.max_size": "1", **settings},
    )
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


async def assert_recording_listed(installed: FixedPortInstallation, bot_id: int) -> None:
    assert (await installed.bot(bot_id))["artifactCount"] == 1
    listed = (await installed.call("GET", f"/v1/bots/{bot_id}/artifacts"))["artifacts"]
    assert [(each["kind"], each["location"]) for each in listed] == [
        ("recording", f"demo/{bot_id}.mp4")
    ]


async def wait_until_finishing(installed: FixedPortInstallation, *bots: dict[str, Any]) -> None:
    async def all_finish() -> bool:
        return all([(await installed.bot(bot["id"]))["finishingAt"] for bot in bots])

    await wait_for("bots that finish", all_finish, within_s=150)


@BACKENDS
@pytest.mark.timeout(600)
async def test_upload_survives_leave_request_drain_crash_and_another_image(
    backend: str, request: pytest.FixtureRequest
) -> None:
    upload = {"uploadSeconds": UPLOAD_S}
    async with installation(backend, request, **QUICK) as installed:
        replica = await installed.serve()
        (asked,) = await installed.send(1, NEVER_ENDS | upload, "zoom")
        await installed.wait_for_in_call(asked)
        await installed.call("DELETE", f"/v1/bots/{asked['id']}")
        others = await installed.send(2, ENDS_SOON | upload, "zoom")
        await wait_until_finishing(installed, asked, *others)
        await installed.call("POST", "/v1/pools/zoom/drain")
        replica.kill()
        await installed.serve(settings={"pools.zoom.image": "another:2"})

        assert await installed.wait_for_end(within_s=150) == {
            bot["id"]: "DONE" for bot in (asked, *others)
        }
        for bot in (asked, *others):
            assert "uploaded" in await installed.bot_output(bot["id"])
            await assert_recording_listed(installed, bot["id"])
            phases = (await installed.call("GET", f"/v1/bots/{bot['id']}/timeline"))["phases"]
            assert [each["phase"] for each in phases][-2:] == ["finishing", "releasing"]
        assert_settled(request.getfixturevalue("database_url"))


@BACKENDS
@pytest.mark.timeout(600)
async def test_upload_that_hangs_fails_although_heartbeats_continue(
    backend: str, request: pytest.FixtureRequest
) -> None:
    async with installation(backend, request, **QUICK) as installed:
        await installed.serve()
        (hanging,) = await installed.send(1, ENDS_SOON | {"hangUpload": True}, "teams")
        await installed.wait_for_end(within_s=150)
        shown = await installed.call("GET", f"/v1/bots/{hanging['id']}")
        bot = shown["bot"]
        assert (bot["status"], bot["failureCode"]) == ("FAILED", "finish_timeout")
        assert '{"secondsUploaded": 0.0}' in bot["failureReason"]
        assert (shown["progress"], bot["artifactCount"]) == ({"secondsUploaded": 0.0}, 0)
        assert "uploading" in await installed.bot_output(bot["id"])
        assert installed.running() == set()


@pytest.mark.long
@BACKENDS
@pytest.mark.timeout(900)
async def test_upload_of_four_minutes_with_the_default_times(
    backend: str, request: pytest.FixtureRequest
) -> None:
    async with installation(backend, request) as installed:
        await installed.serve()
        (bot,) = await installed.send(1, NEVER_ENDS | {"uploadSeconds": 240}, "zoom")
        await installed.wait_for_in_call(bot)
        await installed.call("DELETE", f"/v1/bots/{bot['id']}")
        await asyncio.sleep(240)
        assert await installed.wait_for_end(within_s=120) == {bot["id"]: "DONE"}
        assert "uploaded" in await installed.bot_output(bot["id"])
        await assert_recording_listed(installed, bot["id"])
