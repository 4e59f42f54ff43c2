"""`bot_program.py` for Docker containers, with the same values of `PROGRAM`.

It shares no folder with the test and sends its report by HTTP to `REPORT_TO`. The first process of
a container gets only signals that it handles.
"""

# ruff: noqa: PTH123, PTH208, T201

import http.client
import json
import os
import signal
import sys
from urllib.parse import urlsplit

behaviour, _, argument = os.environ["PROGRAM"].partition(" ")
stopped = signal.SIG_IGN if behaviour == "stubborn" else lambda *_: sys.exit(143)
signal.signal(signal.SIGTERM, stopped)
if behaviour == "print":
    for number in range(1, int(argument) + 1):
        print(f"line {number}", flush=True)

report = {"pid": os.getpid(), "files": os.listdir(), "environment": dict(os.environ)}
address = urlsplit(os.environ["REPORT_TO"])
connection = http.client.HTTPConnection(address.hostname, address.port)
connection.request("POST", f"/{os.environ['ASSIGNMENT']}", json.dumps(report))
connection.getresponse().read()
with open("left-behind", "w") as file:
    file.write("a secret of this meeting")

if behaviour == "exit":
    sys.exit(int(argument))
if behaviour == "use-memory":
    memory = []
    while True:
        memory.append(bytearray(os.urandom(1024 * 1024)))
while True:
    signal.pause()
