"""A program for the wrapper that follows the plan in its `botData` (see `tests/agents/plan.py`).

It knows nothing of Botpool: it reads BOT_DATA, posts to BOTPOOL_STATUS_URL and leaves on SIGTERM.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

asked_to_leave = False


def leave(*_: object) -> None:
    global asked_to_leave
    asked_to_leave = True


def call(resource: str, body: dict[str, Any] | None = None) -> Any:
    url = os.environ["BOTPOOL_STATUS_URL"].replace("/status?", f"/{resource}?")
    request = urllib.request.Request(url, body and json.dumps(body).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as response:
        return json.load(response)


def post(body: dict[str, Any]) -> None:
    call("status", body)


def print_commands() -> None:
    """Ask for commands and acknowledge each, until the program ends."""
    while True:
        for each in call("commands")["commands"]:
            print(f"command {each['id']} {each['kind']} {each['data']['text']}", flush=True)
            post({"acknowledged": [each["id"]]})
        time.sleep(0.02)


def follow(step: str, *values: Any) -> None:
    match step:
        case "report":
            post({"status": values[0]})
        case "fail":
            post({"status": "FAILED", "failureReason": values[0]})
        case "event":
            kind, data = values
            call("events", {"events": [{"kind": kind, "data": data}]})
        case "end":
            post({"status": values[0], "endReason": values[1]})
        case "media":
            post({"lastMediaAt": datetime.now(UTC).isoformat()})
        case "artifact":
            kind, location, size = values
            artifact = {"kind": kind, "location": location, "sizeBytes": size}
            call("artifacts", {"artifacts": [artifact]})
        case "commands":
            threading.Thread(target=print_commands, daemon=True).start()
        case "progress":
            post({"progress": values[0]})
        case "finishing":
            post({"phase": "finishing"})
        case "await leave" | "await exit":
            while not asked_to_leave:
                time.sleep(0.01)
        case "await file":
            while not Path(values[0]).exists():
                time.sleep(0.01)
        case "print":
            print(values[0], flush=True)
        case "raise":
            sys.exit(values[0])
        case "exit":
            sys.exit(values[0])


signal.signal(signal.SIGTERM, leave)
bot = json.loads(os.environ["BOT_DATA"])
print(f"bot {bot['id']} {bot['meetingUrl']}", flush=True)
for each in bot["botData"]["plan"]:
    follow(*each)
