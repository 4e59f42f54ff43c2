"""The demo bot: a real client of the agent API that is in no meeting.

It runs in the pools of local processes, in the demo and in the tests, a hundred at a time on a
laptop. `botData` tells it how to behave: see `Plan`. What it prints is its container's output.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from . import Agent, AgentError, Released

STOP_LIMIT_S = 1.0
"""After SIGTERM: time for the last reports, well before a platform kills the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    join_seconds: float
    stay_seconds: float
    crash: bool
    """Dies without a word after joining."""
    silent: bool
    """Joins, then hangs without heartbeats."""
    reject: bool
    """Is refused by the host."""

    @classmethod
    def read(cls, bot_data: Mapping[str, Any]) -> Self:
        return cls(
            join_seconds=_seconds(bot_data, "joinSeconds", 1.0),
            stay_seconds=_seconds(bot_data, "staySeconds", 10.0),
            crash=_flag(bot_data, "crash"),
            silent=_flag(bot_data, "silent"),
            reject=_flag(bot_data, "reject"),
        )


def _seconds(bot_data: Mapping[str, Any], key: str, default: float) -> float:
    value = bot_data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError(f"botData.{key} must be a number of seconds from 0, not {value!r}.")
    return float(value)


def _flag(bot_data: Mapping[str, Any], key: str) -> bool:
    value = bot_data.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"botData.{key} must be true or false, not {value!r}.")
    return value


async def attend(agent: Agent, plan: Plan) -> None:
    """Be in the meeting, from joining it to its end."""
    say(f"joining {agent.bot.meeting_url} as {agent.bot.bot_display_name}")
    await agent.report("JOINING_CALL")
    await stay(agent, plan.join_seconds)
    if plan.reject:
        say("refused by the host")
        await agent.report("FAILED", reason="The host refused the bot.")
        return
    if not agent.leave_requested.is_set():
        say("in call")
        await agent.report("IN_CALL")
        if plan.crash or plan.silent:
            await agent.flush()
        if plan.crash:
            os._exit(1)
        if plan.silent:
            hang()
        await stay(agent, plan.stay_seconds)
    say("leaving")
    await agent.report("CALL_ENDED")


async def stay(agent: Agent, seconds: float) -> None:
    """Wait, unless the bot is asked to leave."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(agent.leave_requested.wait(), seconds)


def hang() -> NoReturn:
    """Block the event loop, and with it the heartbeat, as a stuck driver does, until killed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    while True:
        signal.pause()


async def run() -> None:
    agent = Agent.from_environment()
    stop_on_sigterm(agent)
    async with agent:
        try:
            plan = Plan.read(agent.bot_data)
        except ValueError as error:
            say(str(error))
            await agent.report("FAILED", reason=str(error))
        else:
            await attend(agent, plan)
    say("released, nothing to report" if agent.released else "done")


def stop_on_sigterm(agent: Agent) -> None:
    """Leave on SIGTERM; whatever still waits for the control plane after that is cut short."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        agent.final_report_limit_s = STOP_LIMIT_S
        agent.leave()
        loop.call_later(STOP_LIMIT_S, task.cancel)

    loop.add_signal_handler(signal.SIGTERM, stop)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the output of a container is for people


def main() -> int:
    try:
        asyncio.run(run())
    except Released as released:
        say(str(released))
    except AgentError as error:
        say(str(error))
        return 1
    except asyncio.CancelledError:
        say("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
