"""The demo bot, and the faults of images that a rollout must not promote.

The first argument names the fault. The rollout's pull starts the image without a bot, so each fault
begins with a bot: an image that fails its pull reaches none.
"""

import asyncio
import os
import sys
import time

from botpool.agent import Agent, demo

EXITS = "exits"
"""Exits before its agent calls."""
SLEEPS = "sleeps"
"""Runs for an hour before its agent calls."""
CRASHES = "crashes"
"""Joins the call and exits a minute later."""
MINUTE_S = 60.0


async def crash_in_call() -> None:
    async with Agent.from_environment() as agent:
        await agent.report("IN_CALL")
        await agent.flush()
        await asyncio.sleep(MINUTE_S)
        os._exit(1)


def main() -> int:
    fault = sys.argv[1] if "BOT_DATA" in os.environ and len(sys.argv) > 1 else None
    if fault == EXITS:
        return 1
    if fault == SLEEPS:
        time.sleep(3600)
    if fault == CRASHES:
        asyncio.run(crash_in_call())
    return demo.main()


if __name__ == "__main__":
    sys.exit(main())
