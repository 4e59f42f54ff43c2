"""A bot that reports when its agent makes its first call, in one file without other modules.

It runs as a program or in a container, on standby or with a bot, and outside of Botpool against a
server of the bench. It sends its bot's id and the time of the call to the bench (a datagram), waits
for an answer, reports DONE and ends. The monotonic clock is the same in every process of a machine.
"""

import http.client
import json
import os
import signal
import socket
import sys
import time
from urllib.parse import urlsplit

_BOOT = os.urandom(8).hex()
_SERVER = urlsplit(os.environ["BOTPOOL_URL"]).netloc


def _call(method: str, path: str, token: str, body: dict[str, str] | None = None) -> dict:  # type: ignore[type-arg]
    connection = http.client.HTTPConnection(_SERVER, timeout=120)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer  # type: ignore[no-any-return]


def _token() -> str:
    """Return the token of the bot, after waiting for it on standby."""
    while "BOTPOOL_TOKEN" not in os.environ:
        standby = os.environ["BOTPOOL_STANDBY_TOKEN"]
        answer = _call("GET", f"/v1/agent/assignment?wait=30&bootId={_BOOT}", standby)
        if answer["shouldExit"]:
            sys.exit(0)
        if answer["assignment"]:
            return str(answer["assignment"]["token"])
    return os.environ["BOTPOOL_TOKEN"]


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    token = _token()
    called_at = time.monotonic()
    container = os.environ["BOTPOOL_CONTAINER_ID"]
    bot = _call("GET", f"/v1/agent/slot?containerId={container}&bootId={_BOOT}", token)["bot"]
    bench = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bench.sendto(f"{bot['id']} {called_at}".encode(), ("127.0.0.1", int(os.environ["BENCH_PORT"])))
    bench.recv(16)
    _call("POST", f"/v1/agent/bots/{bot['id']}/status", token, {"status": "DONE"})


main()
