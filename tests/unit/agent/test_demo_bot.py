"""The demo bot as it runs: a process of its own against a control plane."""

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path
from typing import Any

import pytest

import botpool.agent
from tests.support.fake_control_plane import ControlPlane, Until

AGENT = Path(botpool.agent.__file__).parent
QUICK = {"joinSeconds": 0, "staySeconds": 0}


async def start(plane: ControlPlane, module: str = "botpool.agent.demo", path: str = "") -> Process:
    environment = plane.environment() | {"PYTHONPATH": path or str(AGENT.parents[1])}
    command = [sys.executable, "-W", "error", "-m", module]
    return await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=PIPE, stderr=STDOUT
    )


async def finish(process: Process) -> tuple[int, list[str]]:
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode is not None
    return process.returncode, output.decode().splitlines()


async def run(plane: ControlPlane, **bot_data: Any) -> tuple[int, list[str]]:
    plane.bot_data = QUICK | bot_data
    return await finish(await start(plane))


async def test_demo_bot_completes_a_meeting(plane: ControlPlane) -> None:
    code, output = await run(plane)
    assert code == 0
    assert plane.statuses == ["JOINING_CALL", "IN_CALL", "CALL_ENDED", "DONE"]
    assert output == ["joining zoom.us as Nota", "in call", "leaving", "done"]


async def test_demo_bot_stays_until_asked_to_leave(plane: ControlPlane, until: Until) -> None:
    plane.bot_data = {"joinSeconds": 0, "staySeconds": 600}
    process = await start(plane)
    await until(lambda: plane.statuses == ["JOINING_CALL", "IN_CALL"])
    plane.should_leave = True
    code, output = await finish(process)
    assert code == 0
    assert plane.statuses == ["JOINING_CALL", "IN_CALL", "CALL_ENDED", "DONE"]
    assert output[-2:] == ["leaving", "done"]


async def test_demo_bot_asked_to_leave_while_joining_never_reports_in_call(
    plane: ControlPlane, until: Until
) -> None:
    plane.bot_data = {"joinSeconds": 600}
    process = await start(plane)
    await until(lambda: plane.statuses == ["JOINING_CALL"])
    plane.should_leave = True
    assert (await finish(process))[0] == 0
    assert plane.statuses == ["JOINING_CALL", "CALL_ENDED", "DONE"]


async def test_released_demo_bot_exits_without_report(plane: ControlPlane, until: Until) -> None:
    plane.bot_data = {"joinSeconds": 0, "staySeconds": 600}
    process = await start(plane)
    await until(lambda: "IN_CALL" in plane.statuses)
    plane.should_exit = True
    code, output = await finish(process)
    assert code == 0
    assert plane.statuses == ["JOINING_CALL", "IN_CALL"]
    assert output[-1] == "released, nothing to report"


async def test_demo_bot_released_before_start_does_not_join(plane: ControlPlane) -> None:
    plane.released = True
    code, output = await run(plane)
    assert code == 0
    assert plane.statuses == []
    assert output == ["The slot of bot 7 was released; this container must not run the bot."]


async def test_crash_option_exits_without_report_after_joining(plane: ControlPlane) -> None:
    code, output = await run(plane, crash=True)
    assert code == 1
    assert plane.statuses == ["JOINING_CALL", "IN_CALL"]
    assert output[-1] == "in call"


async def test_silent_option_hangs_without_heartbeats(plane: ControlPlane, until: Until) -> None:
    plane.bot_data = QUICK | {"silent": True}
    process = await start(plane)
    await until(lambda: plane.statuses == ["JOINING_CALL", "IN_CALL"])
    await plane.quiet_for(20 * plane.heartbeat_interval_ms / 1000)
    assert process.returncode is None
    process.terminate()
    assert (await finish(process))[0] == -signal.SIGTERM


async def test_reject_option_reports_the_refusal(plane: ControlPlane) -> None:
    code, _ = await run(plane, reject=True)
    assert code == 0
    assert plane.statuses == ["JOINING_CALL", "FAILED"]
    assert plane.failure_reason == "The host refused the bot."


@pytest.mark.parametrize(
    "wrong",
    [{"staySeconds": "x"}, {"joinSeconds": -1}, {"staySeconds": True}, {"crash": "yes"},
     {"staySeconds": float("nan")}, {"joinSeconds": None}],
    ids=json.dumps,
)  # fmt: skip
async def test_wrong_bot_data_fails_and_names_the_key(
    plane: ControlPlane, wrong: dict[str, Any]
) -> None:
    code, output = await run(plane, **wrong)
    assert code == 0
    assert plane.statuses == ["FAILED"]
    (key,) = wrong
    assert plane.failure_reason is not None
    assert plane.failure_reason.startswith(f"botData.{key} must be ")
    assert output[0] == plane.failure_reason


async def test_sigterm_ends_the_meeting_with_reports(plane: ControlPlane, until: Until) -> None:
    plane.bot_data = {"joinSeconds": 0, "staySeconds": 600}
    process = await start(plane)
    await until(lambda: "IN_CALL" in plane.statuses)
    process.terminate()
    code, _ = await finish(process)
    assert code == 0
    assert plane.statuses == ["JOINING_CALL", "IN_CALL", "CALL_ENDED", "DONE"]


@pytest.mark.parametrize("joined", [True, False], ids=["in the meeting", "before it knew its bot"])
async def test_sigterm_does_not_wait_for_unreachable_control_plane(
    plane: ControlPlane, until: Until, joined: bool
) -> None:
    plane.bot_data = {"joinSeconds": 0, "staySeconds": 600}
    if not joined:
        plane.down()
    process = await start(plane)
    if joined:
        await until(lambda: "IN_CALL" in plane.statuses)
        plane.down()
    else:
        assert process.stdout is not None
        assert b"does not answer" in await asyncio.wait_for(process.stdout.readline(), 30)
    process.terminate()
    async with asyncio.timeout(30):
        code, _ = await finish(process)
    assert code == 0


async def test_demo_bot_names_the_wrong_environment_variable(plane: ControlPlane) -> None:
    plane.environment = dict  # type: ignore[method-assign]
    code, output = await finish(await start(plane))
    assert code == 1
    assert output == ["BOTPOOL_CONTAINER_ID: is not set, nor COOLIFY_RESOURCE_UUID."]


async def test_agent_package_runs_without_the_rest(plane: ControlPlane, tmp_path: Path) -> None:
    shutil.copytree(AGENT, tmp_path / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    plane.bot_data = QUICK
    code, output = await finish(await start(plane, "agent.demo", str(tmp_path)))
    assert (code, output[-1]) == (0, "done")


async def test_agent_imports_only_a_little_of_the_standard_library() -> None:
    script = (
        "import sys, json, botpool.agent.demo;"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    environment = os.environ | {"PYTHONPATH": str(AGENT.parents[1])}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", script, env=environment, stdout=PIPE
    )
    output, _ = await process.communicate()
    loaded = set(json.loads(output))
    assert loaded - sys.stdlib_module_names - {"__main__", "botpool"} == set()
    assert not loaded & {"http", "email", "pydantic", "multiprocessing"}
