"""The client inside a bot's container: who am I, heartbeats, status reports, leaving.

It needs the standard library only and nothing of the rest of Botpool: copy this folder into any
image with Python 3.11. A whole bot:

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
        print("The slot was taken back before the bot joined.")

Leaving the block reports DONE, or FAILED with the text of the exception that left it. An outage of
the control plane is waited out at the start and never disturbs the meeting afterwards. Errors that
nobody can wait out (a wrong token, a missing variable) are an `AgentError` at the start. The
heartbeat shares the bot's event loop: give a driver that blocks a thread of its own.
"""

from .bot import Bot
from .client import Agent
from .errors import AgentError, Released

__all__ = ["Agent", "AgentError", "Bot", "Released"]
