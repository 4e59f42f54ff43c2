"""The demo bot, which also records each call that it joins and the data that it received.

Run as `python recording_demo.py DIRECTORY`. Each joined call writes one file there, with the id of
the bot and of the boot in its name.
"""

import json
import os
import sys
from pathlib import Path

from botpool.agent import Agent, demo

_attend = demo.attend


async def attend(agent: Agent, plan: demo.Plan) -> None:
    received = {"environment": os.environ.get("BOT_DATA"), "botData": agent.bot_data}
    path = Path(sys.argv[1]) / f"{agent.bot.id}-{agent.boot_id}"
    path.with_suffix(".new").write_text(json.dumps(received))
    path.with_suffix(".new").rename(path.with_suffix(".json"))
    await _attend(agent, plan)


demo.attend = attend
sys.exit(demo.main())
