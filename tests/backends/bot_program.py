"""The program in a container of the conformance suite. `PROGRAM` says what it does.

`run` until SIGTERM, `exit <code>`, `stubborn` (ignores SIGTERM), `print <lines>` and then run,
`daemon` (leaves a child in its own session, then exits), `stubborn daemon` (both). Each run writes
one report file when it is ready for signals.
"""

# Each test starts this program many times, so it imports little:
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

path = f"{os.environ['REPORT_TO']}/{os.environ['ASSIGNMENT']}.{os.getpid()}"
with open(f"{path}.tmp", "w") as file:
    report = {"pid": os.getpid(), "files": os.listdir(), "environment": dict(os.environ)}
    json.dump(report, file)
os.rename(f"{path}.tmp", f"{path}.json")
with open("left-behind", "w") as file:
    file.write("a secret of this meeting")

if behaviour == "exit":
    sys.exit(int(argument))
if behaviour == "daemon":
    while not any("-daemon" in name for name in os.listdir(os.environ["REPORT_TO"])):
        time.sleep(0.005)
    sys.exit(0)
while True:
    signal.pause()
