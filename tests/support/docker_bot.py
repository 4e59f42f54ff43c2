"""The demo bot, and with `{"hungry": true}` in its `botData` one that eats all memory."""

import json
import os
import runpy
import threading
import time

eaten = []


def eat() -> None:
    time.sleep(1)
    while True:
        eaten.append(bytearray(os.urandom(1024 * 1024)))


if json.loads(os.environ["BOT_DATA"])["botData"].get("hungry"):
    threading.Thread(target=eat, daemon=True).start()
runpy.run_module("botpool.agent.demo", run_name="__main__")
