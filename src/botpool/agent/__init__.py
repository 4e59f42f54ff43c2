"""The client inside a bot's container: identity, heartbeats, status reports, leave requests.

This package needs only the standard library and imports nothing else of Botpool: copy the folder
into any image with Python 3.11 or later. A complete bot:

    import asyncio
    from botpool.agent import Agent, Released

    async def main() -> None:
        async with Agent.from_environment() as agent:
            await agent.report("JOINING_CALL")
            call = await join(agent.bot.meeting_url, agent.bot.bot_display_name)
            await agent.report("IN_CALL")
            agent.on_leave(call.hang_up)
            await call.over()
            await agent.report("CALL_ENDED")

    try:
        asyncio.run(main())
    except Released:
        print("The slot was released before the bot joined.")

Leaving the block reports DONE, or FAILED with the text of the exception. At the start the agent
waits for an unreachable control plane; later outages never disturb the meeting. A wrong token or a
missing variable raises an `AgentError` at the start. The heartbeat shares the bot's event loop, so
run a driver that blocks in a thread of its own.
"""

from .bot import Bot
from .client import Agent
from .commands import Command
from .errors import AgentError, Released

__all__ = ["Agent", "AgentError", "Bot", "Command", "Released"]
