"""A bot that writes down, where no control plane can reach, that it was started and that it joined.

`python witness_bot.py <folder>` is a real client of the agent API. It stays in its meeting until
`<folder>/meeting-over` exists or it is told to leave. With `{"failures": n}` in its `botData` the
first n of its starts end at once, without a word to anybody.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

WITNESSES = "witnesses"
MEETING_OVER = "meeting-over"


def testify(folder: Path, event: str, bot_id: int) -> None:
    """One line in one write: bots in other containers append to the same file."""
    assignment = os.environ["BOTPOOL_TOKEN"].split(".")[1]
    with (folder / WITNESSES).open("a") as file:
        file.write(f"{event} {bot_id} {assignment}\n")


def starts(folder: Path, bot_id: int) -> int:
    lines = (folder / WITNESSES).read_text().splitlines()
    return sum(line.startswith(f"started {bot_id} ") for line in lines)


async def attend(folder: Path) -> None:
    # Imported late: a start that is to fail must not live long enough to be seen running.
    import asyncio

    from botpool.agent import Agent
    from botpool.agent.backoff import Backoff

    async with Agent.from_environment(backoff=Backoff(first_s=0.05, cap_s=0.1)) as agent:
        testify(folder, "joined", agent.bot.id)
        await agent.report("IN_CALL")
        while not (agent.leave_requested.is_set() or (folder / MEETING_OVER).exists()):
            await asyncio.sleep(0.02)
        await agent.report("CALL_ENDED")


def main(folder: Path) -> int:
    told = json.loads(os.environ["BOT_DATA"])
    testify(folder, "started", told["id"])
    if starts(folder, told["id"]) <= told["botData"].get("failures", 0):
        return 1
    import asyncio

    from botpool.agent import Released

    with suppress(Released):
        asyncio.run(attend(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
