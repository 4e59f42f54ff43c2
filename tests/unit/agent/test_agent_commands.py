"""Commands to the bot, and the data that the agent sends for it."""

import asyncio
import json
from typing import Any

from botpool.agent.commands import Command, Commands
from tests.support.fake_control_plane import ControlPlane, MakeAgent, Until


def answer(*ids: int) -> dict[str, Any]:
    return {"commands": [{"id": each, "kind": "chat", "data": {"n": each}} for each in ids]}


async def test_each_command_reaches_the_callback_once_and_in_order() -> None:
    commands, seen = Commands(), []
    commands.receive(answer(1, 2))
    assert commands.to_acknowledge == [], "without a callback no command is acknowledged"
    commands.on_command(lambda command: seen.append(command))
    commands.receive(answer(1, 2, 3))
    await asyncio.sleep(0)
    assert seen == [Command(id=each, kind="chat", data={"n": each}) for each in (1, 2, 3)]
    assert commands.to_acknowledge == [1, 2, 3]
    commands.acknowledged([1, 2])
    assert commands.to_acknowledge == [3]
    await commands.close()


async def test_command_is_acknowledged_when_its_callback_has_ended() -> None:
    commands, proceed = Commands(), asyncio.Event()

    async def wait(_: Command) -> None:
        await proceed.wait()
        raise RuntimeError("a failed callback does not stop the next command")

    commands.on_command(wait)
    commands.receive(answer(1, 2))
    await asyncio.sleep(0)
    assert commands.to_acknowledge == []
    proceed.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert commands.to_acknowledge == [1, 2]
    await commands.close()


async def test_heartbeat_tells_of_media_and_reports_carry_files(
    plane: ControlPlane, make_agent: MakeAgent, until: Until
) -> None:
    async with make_agent() as agent:
        agent.media()
        beats = plane.of
        await until(lambda: any("lastMediaAt" in (beat.body or {}) for beat in beats("heartbeat")))
        await agent.artifact("recording", "s3://a.mp4", size_bytes=7)
        await agent.report("CALL_ENDED", end_reason="alone")
    (listed,) = plane.of("artifacts")
    expected = {"artifacts": [{"kind": "recording", "location": "s3://a.mp4", "sizeBytes": 7}]}
    assert _parsed(listed.body) == expected
    ended = [_parsed(call.body) for call in plane.of("status")]
    assert {"status": "CALL_ENDED", "endReason": "alone"} in ended


def _parsed(body: Any) -> Any:
    return json.loads(body) if isinstance(body, str | bytes) else body
