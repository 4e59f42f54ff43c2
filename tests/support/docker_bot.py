"""The demo bot. With `{"useAllMemory": true}` in its `botData` it allocates memory without end."""

import json
import os
import runpy
import threading
import time

allocated = []


def allocate() -> None:
    time.sleep(1)
    while True:
        allocated.append(bytearray(os.urandom(1024 * 1024)))


if json.loads(os.environ["BOT_DATA"])["botData"].get("useAllMemory"):
    threading.Thread(target=allocate, daemon=True).start()
runpy.run_module("botpool.agent.demo", run_name="__main__")
