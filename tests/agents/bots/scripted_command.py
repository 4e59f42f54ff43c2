"""A command for the wrapper that follows the plan in its `botData` (see `tests/agents/plan.py`).

It knows nothing of Botpool: it reads BOT_DATA, posts to BOTPOOL_STATUS_URL and leaves on SIGTERM.
"""

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

asked_to_leave = False


def leave(*_: object) -> None:
    global asked_to_leave
    asked_to_leave = True


def post(body: dict[str, Any], resource: str = "status") -> None:
    url = os.environ["BOTPOOL_STATUS_URL"].replace("/status?", f"/{resource}?")
    request = urllib.request.Request(url, json.dumps(body).encode())
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()


def follow(step: str, *values: Any) -> None:
    match step:
        case "report":
            post({"status": values[0]})
        case "fail":
            post({"status": "FAILED", "failureReason": values[0]})
        case "event":
            kind, data = values
            post({"events": [{"kind": kind, "data": data}]}, "events")
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
