"""The program in a container of the conformance suite. `PROGRAM` says what it does.

`run` until SIGTERM, `exit <code>`, `stubborn` (ignores SIGTERM), `print <lines>` and then run,
`daemon` (leaves a child in a session of its own, then exits), `stubborn daemon` (both). Each run
leaves one witness file with what it saw, once it is ready for signals.
"""

# Started many times by each test, so its imports are few:
# ruff: noqa: PTH104, PTH123, PTH208, T201

import json
import os
import signal
import sys
import time

behaviour, _, argument = os.environ["PROGRAM"].partition(" ")
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "print":
    for number in range(1, int(argument) + 1):
        print(f"line {number}", flush=True)
if "daemon" in (behaviour, argument) and os.fork() == 0:
    os.setsid()
    behaviour = "run"
    os.environ["ASSIGNMENT"] += "-daemon"

witness = f"{os.environ['WITNESS']}/{os.environ['ASSIGNMENT']}.{os.getpid()}"
with open(f"{witness}.tmp", "w") as file:
    seen = {"pid": os.getpid(), "files": os.listdir(), "environment": dict(os.environ)}
    json.dump(seen, file)
os.rename(f"{witness}.tmp", f"{witness}.json")
with open("left-behind", "w") as file:
    file.write("a secret of this meeting")

if behaviour == "exit":
    sys.exit(int(argument))
if behaviour == "daemon":
    while not any("-daemon" in name for name in os.listdir(os.environ["WITNESS"])):
        time.sleep(0.005)
    sys.exit(0)
while True:
    signal.pause()
