"""A bot that records its start and its join in a file, independently of any replica.

`python recording_bot.py <folder>` is a real client of the agent API. It stays in its meeting until
`<folder>/meeting-over` exists or it is asked to leave. With `{"failures": n}` in its `botData`, its
first n starts exit at once without calling Botpool. On standby, it waits for its bot; while
`<folder>/never-accepts` exists, it polls and never accepts the bot that it gets.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

EVENTS_FILE = "bot-events"
MEETING_OVER = "meeting-over"
NEVER_ACCEPTS = "never-accepts"


def record_event(folder: Path, event: str, bot_id: int) -> None:
    """Append one line in one write, because several bots append to the same file."""
    assignment = os.environ["BOTPOOL_TOKEN"].split(".")[1]
    with (folder / EVENTS_FILE).open("a") as file:
        file.write(f"{event} {bot_id} {assignment}\n")


def starts(folder: Path, bot_id: int) -> int:
    lines = (folder / EVENTS_FILE).read_text().splitlines()
    return sum(line.startswith(f"started {bot_id} ") for line in lines)


async def attend(folder: Path) -> None:
    # Imported late, so that a failing start ends before an observation shows it running.
    import asyncio

    from botpool.agent import Agent
    from botpool.agent.backoff import Backoff

    async with Agent.from_environment(backoff=Backoff(first_s=0.05, cap_s=0.1)) as agent:
        record_event(folder, "joined", agent.bot.id)
        await agent.report("IN_CALL")
        while not (agent.leave_requested.is_set() or (folder / MEETING_OVER).exists()):
            await asyncio.sleep(0.02)
        await agent.report("CALL_ENDED")


async def ignore_bot() -> None:
    """Wait for a bot as a standby does, and do nothing when it arrives."""
    import asyncio

    from botpool.agent.backoff import Backoff
    from botpool.agent.standby import wait_for_assignment
    from botpool.agent.transport import Transport

    url, token = os.environ["BOTPOOL_URL"], os.environ["BOTPOOL_STANDBY_TOKEN"]
    transport = Transport(url, token, correlation_id=None, timeout_s=40)
    await wait_for_assignment(transport, "never-accepts", 30, Backoff(first_s=0.05, cap_s=0.1))
    await asyncio.sleep(3600)


def main(folder: Path) -> int:
    if "BOT_DATA" in os.environ:
        bot_data = json.loads(os.environ["BOT_DATA"])
        record_event(folder, "started", bot_data["id"])
        if starts(folder, bot_data["id"]) <= bot_data["botData"].get("failures", 0):
            return 1
    import asyncio

    if "BOTPOOL_STANDBY_TOKEN" in os.environ and (folder / NEVER_ACCEPTS).exists():
        asyncio.run(ignore_bot())

    from botpool.agent import Released

    with suppress(Released):
        asyncio.run(attend(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
