"""Every agent against a real Botpool: a call goes on while the control plane is away."""

import shlex
from pathlib import Path

import pytest

from tests.agents.plan import AGENTS, Options
from tests.support.agent_programs import NODE_PACKAGES
from tests.support.server import installation, none_left

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("agent", AGENTS)
async def test_bot_leaves_and_ends_after_the_control_plane_was_killed_in_its_call(
    agent: str, database_url: str, tmp_path: Path
) -> None:
    options = Options()
    environment = [
        f"SCRIPTED_OPTIONS={options.environment()}",
        f"SCRIPTED_AGENT={NODE_PACKAGES / 'botpool-agent' / 'dist' / 'index.js'}",
    ]
    settings = {
        "pools.google-meet.max_size": "1",
        "backends.process.command": shlex.join(["env", *environment, *AGENTS[agent](options)]),
        "agent.heartbeat_interval_ms": "200",
        "agent.leave_grace_s": "300",
    }
    plan = [
        ["report", "JOINING_CALL"],
        ["report", "IN_CALL"],
        ["commands"],
        ["await leave"],
        ["finishing"],
        ["progress", {"bytesUploaded": 512}],
        ["event", "uploaded", {"bytes": 512}],
        ["artifact", "recording", "s3://bucket/recording.mp4", 512],
        ["end", "CALL_ENDED", "left"],
    ]
    async with installation(database_url, tmp_path, settings) as installed:
        first = await installed.serve()
        async with installed.client(first) as user:
            body = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": {"plan": plan}}
            bot_id = (await user.post("/v1/bots", json=body)).json()["bot"]["id"]
            path = f"/v1/bots/{bot_id}"

            async def status_other_than(wanted: str) -> list[str]:
                bot = (await user.get(path)).json()["bot"]
                assert bot["status"] != "FAILED", bot["failureReason"]
                return [] if bot["status"] == wanted else [bot["status"]]

            await none_left("other statuses", lambda: status_other_than("IN_CALL"), within_s=90)
            first.kill()
            assert installed.running_programs()
            second = await installed.serve(first.port)
            assert second.port == first.port
            chat = {"kind": "chat", "data": {"text": "Hello"}}
            assert (await user.post(f"{path}/commands", json=chat)).status_code == 202

            async def open_commands() -> list[str]:
                commands = (await user.get(f"{path}/commands")).json()["commands"]
                return [each["state"] for each in commands if each["state"] != "acknowledged"]

            await none_left("open commands", open_commands, within_s=90)
            assert (await user.delete(path)).status_code == 202
            await none_left("other statuses", lambda: status_other_than("DONE"), within_s=90)
            events = (await user.get(f"{path}/events")).json()["events"]
            artifacts = (await user.get(f"{path}/artifacts")).json()["artifacts"]
            bot = (await user.get(path)).json()["bot"]
            output = (await user.get(f"{path}/logs")).text
    statuses = [event["to"] for event in events if event["kind"] == "bot.status"]
    assert statuses[-4:] == ["IN_CALL", "LEAVING", "CALL_ENDED", "DONE"]
    assert "agent.uploaded" in [event["kind"] for event in events]
    assert bot["endReason"] == "left"
    assert [each["location"] for each in artifacts] == ["s3://bucket/recording.mp4"]
    assert "chat Hello" in output
