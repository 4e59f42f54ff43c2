"""`program.py` as the first process of a Docker container: the same words in `PROGRAM`.

It has no folder in common with the test, so that it sends its witness by HTTP to `WITNESS`. The
first process of a container must want a signal to get it.
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

seen = {"pid": os.getpid(), "files": os.listdir(), "environment": dict(os.environ)}
address = urlsplit(os.environ["WITNESS"])
connection = http.client.HTTPConnection(address.hostname, address.port)
connection.request("POST", f"/{os.environ['ASSIGNMENT']}", json.dumps(seen))
connection.getresponse().read()
with open("left-behind", "w") as file:
    file.write("a secret of this meeting")

if behaviour == "exit":
    sys.exit(int(argument))
if behaviour == "hungry":
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1024 * 1024)))
while True:
    signal.pause()
