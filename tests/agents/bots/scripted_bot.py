"""A bot on the Python agent that follows the plan in its `botData` (see `tests/agents/plan.py`)."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from botpool.agent import Agent, AgentError, Released
from botpool.agent.backoff import Backoff


async def follow(agent: Agent, step: str, *values: Any) -> None:
    match step:
        case "report":
            await agent.report(*values)
        case "fail":
            await agent.report("FAILED", reason=values[0])
        case "event":
            await agent.event(*values)
        case "progress":
            agent.progress(**values[0])
        case "finishing":
            agent.finishing()
        case "await leave":
            await agent.leave_requested.wait()
        case "await exit":
            await agent.exit_requested.wait()
        case "await file":
            while not Path(values[0]).exists():
                await asyncio.sleep(0.01)
        case "end":
            await agent.report(values[0], end_reason=values[1])
        case "media":
            agent.media()
        case "artifact":
            await agent.artifact(values[0], values[1], size_bytes=values[2])
        case "commands":
            agent.on_command(
                lambda each: print(f"command {each.id} {each.kind} {each.data['text']}")
            )
        case "print":
            print(values[0], flush=True)
        case "raise":
            raise RuntimeError(values[0])


async def run() -> None:
    chosen = json.loads(os.environ["SCRIPTED_OPTIONS"])
    agent = Agent.from_environment(
        timeout_s=chosen["timeoutS"],
        backoff=Backoff(first_s=chosen["backoffS"] / 60, cap_s=chosen["backoffS"]),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.leave)
    async with agent:
        print(f"bot {agent.bot.id} {agent.bot.meeting_url}", flush=True)
        for step in agent.bot_data["plan"]:
            await follow(agent, *step)


try:
    asyncio.run(run())
except Released as released:
    print(released)
except (AgentError, RuntimeError) as error:
    sys.exit(str(error))
