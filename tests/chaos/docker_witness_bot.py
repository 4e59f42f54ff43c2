"""`witness_bot.py` in a Docker container: it testifies by HTTP to the address in its `botData`."""

import asyncio
import http.client
import json
import os
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from botpool.agent import Agent, Released
from botpool.agent.backoff import Backoff

told = json.loads(os.environ["BOT_DATA"])
witness = urlsplit(told["botData"]["witness"])
assignment = os.environ["BOTPOOL_TOKEN"].split(".")[1]


def ask(method: str, path: str) -> str:
    connection = http.client.HTTPConnection(witness.hostname, witness.port, timeout=30)
    connection.request(method, path)
    return connection.getresponse().read().decode()


def testify(event: str) -> int:
    """How often this bot has said so by now."""
    return int(ask("POST", f"/{event}/{told['id']}/{assignment}"))


async def attend() -> None:
    async with Agent.from_environment(backoff=Backoff(first_s=0.05, cap_s=0.1)) as agent:
        testify("joined")
        await agent.report("IN_CALL")
        while not agent.leave_requested.is_set() and ask("GET", "/meeting-over") != "yes":
            await asyncio.sleep(0.05)
        await agent.report("CALL_ENDED")


if testify("started") <= told["botData"].get("failures", 0):
    sys.exit(1)
with suppress(Released):
    asyncio.run(attend())
