"""`recording_bot.py` for Docker: reports its events by HTTP to the URL in its `botData`."""

import asyncio
import http.client
import json
import os
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from botpool.agent import Agent, Released
from botpool.agent.backoff import Backoff

bot_data = json.loads(os.environ["BOT_DATA"])
recorder = urlsplit(bot_data["botData"]["recorder"])
assignment = os.environ["BOTPOOL_TOKEN"].split(".")[1]


def ask(method: str, path: str) -> str:
    connection = http.client.HTTPConnection(recorder.hostname, recorder.port, timeout=30)
    connection.request(method, path)
    return connection.getresponse().read().decode()


def report_event(event: str) -> int:
    """Report an event; return how often this bot has reported it."""
    return int(ask("POST", f"/{event}/{bot_data['id']}/{assignment}"))


async def attend() -> None:
    async with Agent.from_environment(backoff=Backoff(first_s=0.05, cap_s=0.1)) as agent:
        report_event("joined")
        await agent.report("IN_CALL")
        while not agent.leave_requested.is_set() and ask("GET", "/meeting-over") != "yes":
            await asyncio.sleep(0.05)
        await agent.report("CALL_ENDED")


if report_event("started") <= bot_data["botData"].get("failures", 0):
    sys.exit(1)
with suppress(Released):
    asyncio.run(attend())
