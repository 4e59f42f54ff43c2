"""The demo bot: a real client of the agent API that joins no meeting.

It runs in pools of local processes, in `botpool demo` and in the tests. `botData` controls its
behaviour (see `Plan`), and its standard output is the container's output.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Self
from urllib.parse import urlsplit

from . import Agent, AgentError, Released

STOP_LIMIT_S = 1.0
"""Time for the last reports after SIGTERM, well before a backend kills the process."""
_UPLOAD_STEP_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    join_seconds: float
    stay_seconds: float
    crash: bool
    """Exits without a report after joining."""
    silent: bool
    """Joins, then hangs without heartbeats."""
    reject: bool
    """Reports that the host refused the bot."""
    upload_seconds: float
    """How long the bot uploads its recording after the call."""
    hang_upload: bool
    """The upload never ends, although heartbeats continue."""

    @classmethod
    def read(cls, bot_data: Mapping[str, Any]) -> Self:
        return cls(
            join_seconds=_read_seconds(bot_data, "joinSeconds", 1.0),
            stay_seconds=_read_seconds(bot_data, "staySeconds", 10.0),
            crash=_read_flag(bot_data, "crash"),
            silent=_read_flag(bot_data, "silent"),
            reject=_read_flag(bot_data, "reject"),
            upload_seconds=_read_seconds(bot_data, "uploadSeconds", 0.0),
            hang_upload=_read_flag(bot_data, "hangUpload"),
        )


def _read_seconds(bot_data: Mapping[str, Any], key: str, default: float) -> float:
    value = bot_data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError(f"botData.{key} must be a number of seconds from 0, not {value!r}.")
    return float(value)


def _read_flag(bot_data: Mapping[str, Any], key: str) -> bool:
    value = bot_data.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"botData.{key} must be true or false, not {value!r}.")
    return value


async def attend(agent: Agent, plan: Plan) -> None:
    """Simulate the meeting, from joining to its end."""
    # Only the host: links contain passwords, and everybody with a key reads this output.
    host = urlsplit(agent.bot.meeting_url).hostname
    log_line(f"joining {host} as {agent.bot.bot_display_name}")
    await agent.report("JOINING_CALL")
    await wait_in_meeting(agent, plan.join_seconds)
    if plan.reject:
        log_line("refused by the host")
        await agent.report("FAILED", reason="The host refused the bot.")
        return
    if not agent.leave_requested.is_set():
        log_line("in call")
        await agent.report("IN_CALL")
        if plan.crash or plan.silent:
            await agent.flush()
        if plan.crash:
            os._exit(1)
        if plan.silent:
            hang()
        await wait_in_meeting(agent, plan.stay_seconds)
    log_line("leaving")
    await agent.report("CALL_ENDED")
    await upload(agent, plan)


async def upload(agent: Agent, plan: Plan) -> None:
    """Pretend to upload a recording: report the progress, then list the recording."""
    if not plan.upload_seconds and not plan.hang_upload:
        return
    log_line("uploading")
    remaining_s = plan.upload_seconds
    while plan.hang_upload or remaining_s > 0:
        uploaded_s = 0.0 if plan.hang_upload else plan.upload_seconds - remaining_s
        agent.progress(secondsUploaded=round(uploaded_s, 1))
        await asyncio.sleep(min(_UPLOAD_STEP_S, remaining_s) if remaining_s else _UPLOAD_STEP_S)
        remaining_s -= _UPLOAD_STEP_S
    await agent.artifact("recording", f"demo/{agent.bot.id}.mp4", content_type="video/mp4")
    log_line("uploaded")


async def wait_in_meeting(agent: Agent, seconds: float) -> None:
    """Wait for the given time, or until the bot is asked to leave."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(agent.leave_requested.wait(), seconds)


def hang() -> NoReturn:
    """Block the event loop and the heartbeat until killed, like a stuck driver."""
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
            log_line(str(error))
            await agent.report("FAILED", reason=str(error))
        else:
            await attend(agent, plan)
    log_line("released, nothing to report" if agent.released else "done")


def stop_on_sigterm(agent: Agent) -> None:
    """Leave on SIGTERM and limit the time for the remaining calls to the control plane."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        agent.final_report_limit_s = STOP_LIMIT_S
        agent.leave()
        loop.call_later(STOP_LIMIT_S, task.cancel)

    loop.add_signal_handler(signal.SIGTERM, stop)


def log_line(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - container output


def main() -> int:
    try:
        asyncio.run(run())
    except Released as released:
        log_line(str(released))
    except AgentError as error:
        log_line(str(error))
        return 1
    except asyncio.CancelledError:
        log_line("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
