"""The containers' part of the contract, spoken by an HTTP server of the standard library.

It is a second implementation of HTTP on purpose: the agent reads answers by hand.
"""

import asyncio
import json
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from botpool.agent import Agent

Until = Callable[[Callable[[], object]], Awaitable[None]]
"""The types of the fixtures `until` and `make_agent`."""
MakeAgent = Callable[..., Agent]

BOT_ID = 7
CONTAINER_ID = "pool-zoom-001"
TOKEN = "assignment-1.s3cret"
STANDBY_TOKEN = "standby-1.s3cret"
CERTIFICATE = Path(__file__).with_name("localhost.pem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def resource(self) -> str:
        return self.path.partition("?")[0].rpartition("/")[2]

    def header(self, name: str) -> str | None:
        """Return a header; case does not matter in its name."""
        return {key.lower(): value for key, value in self.headers.items()}.get(name.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What to answer instead. `applied`: the call counts, and only its answer goes wrong.

    The answer leaves after `late_s`; an agent that waits for less has hung up by then.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    applied: bool = False
    late_s: float = 0.0


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that hangs up before its answer is no error here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ControlPlane:
    def __init__(self, *, tls: bool = False) -> None:
        self.calls: list[Call] = []
        self.requests = 0
        self.faults: dict[str, deque[Fault]] = {}
        self.bot_data: dict[str, Any] = {}
        self.released = False
        self.should_leave = False
        self.should_exit = False
        self.commands: list[dict[str, Any]] = []
        """Delivered with every heartbeat until one acknowledges them."""
        self.acknowledged: set[int] = set()
        self.heartbeat_interval_ms = 20
        self.hands_over = False
        """Whether the answer to a standby's poll has a bot."""
        self.standby_should_exit = False
        self.join_in_ms: float | None = None
        """The time until a scheduled bot joins, in the answer to its identity request."""
        self.moved_join_in_ms: float | None = None
        """The time until the bot joins, in the answers to its heartbeats."""
        self.permissions: deque[dict[str, Any]] = deque()
        """The answers to reports of JOINING_CALL; the report applies without one."""
        self._tls = tls
        self._port = 0
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    @property
    def statuses(self) -> list[str]:
        return [call.body["status"] for call in self.of("status")]

    @property
    def failure_reason(self) -> str | None:
        reason: str | None = self.of("status")[-1].body.get("failureReason")
        return reason

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for call in self.of("events") for event in call.body["events"]]

    def of(self, resource: str) -> list[Call]:
        return [call for call in self.calls if call.resource == resource]

    def fail(self, resource: str, *faults: Fault) -> None:
        self.faults.setdefault(resource, deque()).extend(faults)

    async def quiet_for(self, seconds: float) -> None:
        """Wait until nothing, faulty answers included, was asked for so long."""
        async with asyncio.timeout(30):
            seen = -1
            while seen != self.requests:
                seen = self.requests
                await asyncio.sleep(seconds)

    def environment(self) -> dict[str, str]:
        return {
            "BOTPOOL_URL": self.url,
            "BOTPOOL_CONTAINER_ID": CONTAINER_ID,
            "BOTPOOL_TOKEN": TOKEN,
            "BOT_DATA": json.dumps({"id": BOT_ID, "correlationId": "corr-1"}),
        }

    def up(self) -> None:
        """Listen; again on the same port after `down`."""
        plane = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                plane.answer(self)

            def do_POST(self) -> None:
                plane.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = Server(("127.0.0.1", self._port), Handler)
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        length = int(request.headers.get("Content-Length") or 0)
        content = request.rfile.read(length)
        call = Call(
            method=request.command,
            path=request.path,
            headers=dict(request.headers),
            body=json.loads(content) if content else None,
        )
        waiting = self.faults.get(call.resource)
        fault = waiting.popleft() if waiting else None
        if fault is None or fault.applied:
            self.calls.append(call)
        if fault:
            time.sleep(fault.late_s)
            _send(request, fault.status, fault.headers, fault.body)
        elif call.resource == "assignment" and call.header("Authorization") == (
            f"Bearer {STANDBY_TOKEN}"
        ):
            _send_json(request, self._poll())
        elif call.headers.get("Authorization") != f"Bearer {TOKEN}":
            _problem(request, 401, "The token is not valid.")
        elif call.path.startswith(f"/v1/agent/slot?containerId={CONTAINER_ID}&bootId="):
            _send_json(request, self._identity())
        elif call.path == f"/v1/agent/bots/{BOT_ID}/heartbeat":
            _send_json(request, self._instructions(call.body or {}))
        elif call.path.startswith(f"/v1/agent/bots/{BOT_ID}/"):
            asks = call.resource == "status" and call.body["status"] == "JOINING_CALL"
            answer = self.permissions.popleft() if asks and self.permissions else {"applied": True}
            _send_json(request, answer)
        else:
            _problem(request, 404, "There is no such container.")

    def _instructions(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.acknowledged |= set(body.get("acknowledged", []))
        return {
            "shouldLeave": self.should_leave,
            "shouldExit": self.should_exit,
            "joinInMs": self.moved_join_in_ms,
            "commands": [each for each in self.commands if each["id"] not in self.acknowledged],
        }

    def _poll(self) -> dict[str, Any]:
        """Answer the poll of a standby; without a bot after a moment, not after its whole wait."""
        if not (self.hands_over or self.standby_should_exit):
            time.sleep(0.02)
            return {"assignment": None, "shouldExit": False}
        bot_data = {
            "id": BOT_ID,
            "correlationId": "corr-1",
            "meetingUrl": "https://zoom.us/j/1?pwd=x",
            "botData": self.bot_data,
        }
        assignment = {
            "id": 1,
            "token": TOKEN,
            "containerId": CONTAINER_ID,
            "environment": {"BOT_DATA": json.dumps(bot_data), "BOT_LANGUAGE": "de"},
        }
        return {
            "assignment": assignment if self.hands_over else None,
            "shouldExit": self.standby_should_exit,
        }

    def _identity(self) -> dict[str, Any]:
        return {
            "bot": {
                "id": BOT_ID,
                "correlationId": "corr-1",
                "platform": "zoom",
                "meetingUrl": "https://zoom.us/j/1?pwd=x",
                "botDisplayName": "Nota",
                "status": "DEPLOYING",
            },
            "botData": self.bot_data,
            "released": self.released,
            "heartbeatIntervalMs": self.heartbeat_interval_ms,
            "joinInMs": self.join_in_ms,
        }


def _send_json(request: BaseHTTPRequestHandler, value: Mapping[str, Any]) -> None:
    _send(request, 200, {"Content-Type": "application/json"}, json.dumps(value).encode())


def _problem(request: BaseHTTPRequestHandler, status: int, detail: str) -> None:
    body = {"type": "about:blank", "title": "No", "status": status, "detail": detail}
    headers = {"Content-Type": "application/problem+json"}
    _send(request, status, headers, json.dumps(body).encode())


def _send(
    request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
