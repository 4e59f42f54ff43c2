"""The demo bot. With `{"useAllMemory": true}` in its `botData` it uses all memory in its call."""

import asyncio
import json
import os
import sys

from botpool.agent import Agent, demo


async def use_all_memory() -> None:
    allocated = []
    async with Agent.from_environment() as agent:
        await agent.report("IN_CALL")
        await agent.flush()
        while True:
            allocated.append(os.urandom(1024 * 1024))


# A container on standby has no bot yet.
if json.loads(os.environ.get("BOT_DATA", '{"botData": {}}'))["botData"].get("useAllMemory"):
    asyncio.run(use_all_memory())
sys.exit(demo.main())
